"""Options of XLA's CPU compiler for tests, whose programs run for milliseconds and would else compile for seconds."""

OPTIONS = {'xla_backend_optimization_level': 0, 'xla_cpu_use_fusion_emitters': False}
