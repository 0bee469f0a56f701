"""ServeGen summaries: traffic with the clients' rates and lengths, shaped by the day's rates."""

import numpy as np
import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import needs_traces, notes_with, real
from workloads.traffic.readers import read_trace

HEADER = (
    "client_chunk,windows_600s,mean_rate_req_s,rate_weighted_iat_cv,commonest_family,"
    "mean_input_tokens,mean_output_tokens"
)
CLIENTS = f"""{HEADER}
1,144,20,1.5,Gamma,100,2000
2,144,5,2.0,Weibull,5000,300
"""
RATES = "window_start_s,sum_rate_req_s\n0,10\n600,30\n"


@pytest.fixture
def clients(tmp_path):
    path = tmp_path / "day_clients.csv"
    path.write_text(CLIENTS)
    return path


def test_rates_and_lengths_of_the_sample(clients):
    trace = read_trace(clients, duration_s=2000.0, seed=4)
    assert len(trace) == pytest.approx(50_000, rel=0.03)
    # (20 x 100 + 5 x 5,000) / 25 and (20 x 2,000 + 5 x 300) / 25.
    assert trace.input_tokens.mean() == pytest.approx(1080, rel=0.08)
    assert trace.output_tokens.mean() == pytest.approx(1660, rel=0.05)
    assert trace.input_tokens.min() >= 1
    assert (np.diff(trace.arrival_ns) >= 0).all()
    assert notes_with(trace, "generated, not recorded")
    assert notes_with(trace, "rates are constant")


def test_the_same_seed_gives_the_same_traffic(clients):
    a, b, c = (read_trace(clients, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(a.arrival_ns, b.arrival_ns)
    assert np.array_equal(a.input_tokens, b.input_tokens)
    assert len(a) != len(c) or not np.array_equal(a.arrival_ns, c.arrival_ns)


def test_rates_of_the_day_shape_the_arrivals(clients):
    clients.with_name("day_rate_600s.csv").write_text(RATES)
    trace = read_trace(clients, duration_s=1200.0)
    early = int((trace.arrival_ns < 600e9).sum())
    # 25 requests a second in the mean, one quarter of them in the first half.
    assert early == pytest.approx(25 * 1200 / 4, rel=0.08)
    assert len(trace) == pytest.approx(25 * 1200, rel=0.05)
    assert notes_with(trace, "total rate over time from day_rate_600s.csv")
    with pytest.raises(InputError, match="rates of 1200 s, fewer than the 1300 s asked for"):
        read_trace(clients, duration_s=1300.0)


@needs_traces
def test_real_summary():
    """The first window has 14.86 requests a second over all 73 clients."""
    trace = read_trace(real("servegen_deepseek_r1_clients.csv"), duration_s=600.0)
    assert len(trace) == pytest.approx(14.86 * 600, rel=0.1)
    with pytest.raises(InputError, match="total rates without lengths"):
        read_trace(real("servegen_deepseek_r1_rate_600s.csv"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Gamma", "Gama", r":2: unknown family 'gama': did you mean 'gamma'"),
        ("1,144,20,", "1,144,,", r":2: no 'mean_rate_req_s', expected a number above 0"),
        ("1,144,20,", "1,144,0,", r":2: 'mean_rate_req_s' is '0', expected a number above 0"),
        ("1,144,20,", "1,144,1e9,", "over the limit of 20,000,000; shorten the duration"),
    ],
)
def test_bad_summaries(clients, old, new, words):
    clients.write_text(CLIENTS.replace(old, new))
    with pytest.raises(InputError, match=words):
        read_trace(clients)
