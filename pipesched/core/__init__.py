"""The scheduling core: tasks, resources, precedences and memory. It knows nothing of pipelines or of hardware."""
