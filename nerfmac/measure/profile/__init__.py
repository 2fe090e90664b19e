"""Where the time of a training step goes, from the whole step down to each kernel.

    profile           the step by stage and kernel, beside what the machine could do; a timeline
    trained           a run after the steps after which training is as in most of a run
    python_profile    Python's own profile of the host
    write_graph       the compiled step as a graph
    captured          a trace of an Apple GPU, for Xcode

`nerfmac profile` shows these. They are built from:

    steps, parts      a step in turns with itself without some kernels; each kernel's part of it
    host              what the host does, from the timeline of steps (`nerfmac.timeline`)
    replay            one step, kernel by kernel, in a timeline
    profiling         the measurements above; `tables` has their lines for people
"""

from nerfmac.measure.profile.graph import captured as captured
from nerfmac.measure.profile.graph import check_capture as check_capture
from nerfmac.measure.profile.graph import write_graph as write_graph
from nerfmac.measure.profile.host import python_profile as python_profile
from nerfmac.measure.profile.host import take_steps as take_steps
from nerfmac.measure.profile.profiling import STEPS as STEPS
from nerfmac.measure.profile.profiling import Profile as Profile
from nerfmac.measure.profile.profiling import profile as profile
from nerfmac.measure.profile.steps import NEVER_EVALUATED as NEVER_EVALUATED
from nerfmac.measure.profile.steps import recorded_launches as recorded_launches
from nerfmac.measure.profile.steps import sizes_of as sizes_of
