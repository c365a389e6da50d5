"""How far an estimate can be believed: published runs beside it, and a model of how they differ from estimates."""
