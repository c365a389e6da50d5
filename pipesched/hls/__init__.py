"""High-level synthesis on the same core: expressions and loops as dataflow graphs on adders and multipliers."""
