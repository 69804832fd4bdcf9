"""Where `experiments.fast.preprocessing` was: checkpoints of before name its classes so."""

import sys

from experiments.fast import preprocessing
from experiments.fast.preprocessing import modules, moments, rewards, transforms

for _module in (modules, moments, rewards, transforms):
    sys.modules[_module.__name__.replace(preprocessing.__name__, __name__)] = _module
