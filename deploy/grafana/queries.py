"""Queries over the chosen models and servers, which $m in them stands for."""

from __future__ import annotations


def rate(metric: str, labels: str = "") -> str:
    """Return the rate of a counter over the chosen models and servers."""
    return f"rate({metric}{{$m{labels}}}[$__rate_interval])"


def total(metric: str, labels: str = "", by: str = "") -> str:
    """Return the summed rate."""
    return f"sum{f' by ({by})' if by else ''} ({rate(metric, labels)})"


def ratio(above: str, below: str) -> str:
    """Return a quotient of two rates, without a value where nothing happened."""
    return f"{above} / ({below} > 0)"


def quantile(share: float, metric: str) -> str:
    """Return a quantile of a histogram."""
    return f"histogram_quantile({share}, {total(f'{metric}_bucket', by='le')})"


def quantiles(metric: str, what: str = "", shares: tuple[float, ...] = (0.5, 0.95, 0.99)) -> dict[str, str]:
    """Return quantiles by legend."""
    return {f"{what}P{share * 100:g}": quantile(share, metric) for share in shares}


def mean(metric: str) -> str:
    """Return the mean of a histogram."""
    return ratio(total(f"{metric}_sum"), total(f"{metric}_count"))
