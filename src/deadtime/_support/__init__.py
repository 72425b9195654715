"""Access to the operating system: files, processes, memory, terminals and pictures."""

__all__: list[str] = []
