"""What a kernel works on, in a few words: its products, or the bytes that it moves or sends."""

from __future__ import annotations

from simulator.basis.units import format_rate
from simulator.engine.kernel import Demand, Product, Shape


def shape_text(demand: Demand) -> str:
    """`64 x 1536 x 4096 fp8` is rows x columns x depth; averages are rounded."""
    products = [_product(product) for product in demand.products]
    if products:
        return " + ".join(products)
    if demand.link_bytes:
        return f"{demand.link_ranks} ranks, {format_rate(demand.link_bytes, 'B')} sent by each"
    return format_rate(demand.moved_bytes, "B") if demand.moved_bytes else "–"


def program_text(demand: Demand) -> str:
    """The program that prices the kernel."""
    return demand.priced_as.program if demand.priced_as else "tile"


def _product(product: Product) -> str:
    sizes = f"{product.rows:.0f} x {product.columns:.0f} x {product.depth:.0f} {product.math}"
    if product.shape is Shape.ATTENTION:
        return (
            f"{product.count:.0f} queries of {product.rows:.0f} heads x {product.columns:.0f} keys"
        )
    return sizes if product.count == 1 else f"{product.count:.0f} of {sizes}"
