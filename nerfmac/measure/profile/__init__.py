"""`nerfmac profile`: where the time of a training step goes, from the whole step to each kernel.

profiling    `profile`: all of it, beside what the machine could do; a timeline
parts        the step, each kernel's launches alone, and what remains
host         what the host does, from the timeline of steps (`nerfmac.timeline`)
xcode        a trace of an Apple GPU
"""
