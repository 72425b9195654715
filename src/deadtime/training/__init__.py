"""From a spec to what was learned."""
