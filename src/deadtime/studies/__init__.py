"""Studies: experiments as data, with their figures and tables."""

__all__: list[str] = []
