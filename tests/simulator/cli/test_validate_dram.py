"""`v4sim validate` on tables of DRAM runs: rows are run and compared, bad ones are refused."""

import json

import pytest

from simulator.cli.main import main

HEADER = (
    "sim,config,channels,map_lsb_first,refresh,queue_entries,pattern,chunk_bytes,align_bytes,"
    "chan_interleave_bytes,outstanding_chunks,write_frac,n_chunks,frac_peak_useful,lat_p50_ns"
)


def row(config="hbm3_5200_ab", pattern="stream", chunks="200", useful=0.9):
    return f'x,{config},1,"c2,g,p,c,b,s",ab,64,{pattern},4096,4096,256,3,0.0,{chunks},{useful},300'


def table(folder, *rows, header=HEADER):
    path = folder / "dram.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_rows_are_run_and_compared(capsys, tmp_path):
    table(tmp_path, row(), row(pattern="rand"))
    out = tmp_path / "out.json"
    code, text, _ = run(capsys, "validate", tmp_path, "--json", out)
    assert code == 0
    (dram,) = json.loads(out.read_text())["dram"]
    assert dram["n"] == 2
    assert [group["pattern"] for group in dram["groups"]] == ["rand", "stream"]
    assert dram["all"]["worst_abs_useful_error"] < 0.3
    assert dram["worst"][0]["cause"]
    assert "hbm3_5200_ab, 1, stream" in text


@pytest.mark.parametrize(
    ("line", "header", "words"),
    [
        (row(config="hbm3_5201_ab"), HEADER, "did you mean 'hbm3_5200_ab'"),
        (row(chunks="many"), HEADER, "'many'"),
        (row(pattern="zigzag"), HEADER, "known are stream, rand"),
        (row(), HEADER.replace("outstanding_chunks", "in_flight"), "outstanding_chunks"),
    ],
)
def test_a_bad_table_is_one_sentence(capsys, tmp_path, line, header, words):
    path = table(tmp_path, line, header=header)
    code, _, err = run(capsys, "validate", tmp_path)
    assert code == 2
    assert err.startswith(f"error: {path}:")
    assert words in " ".join(err.split())


def test_calibrate_fits_nothing_to_them(capsys, tmp_path):
    table(tmp_path, row())
    code, _, err = run(capsys, "calibrate", tmp_path, "--out", tmp_path / "constants.yaml")
    assert code == 2
    assert "a table of DRAM runs" in err
    assert not (tmp_path / "constants").exists()
