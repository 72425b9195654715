"""Parts of the operating system: files, processes, memory, terminals and pictures."""

__all__: list[str] = []
