"""All exceptions that apmax raises deliberately, as one tree.

::

    ApmaxError
    ├── RankError (a RuntimeError)          another process of a distributed run failed
    ├── PartitionError (a RuntimeError)     a partition of the data ends the processes that read it
    ├── NoWorkerError (a RuntimeError)      a cluster has had no worker for too long
    └── InputError (also a ValueError)      an argument or file cannot be used
        ├── ShapeError                      empty, wrong dimensions, or lengths that differ
        ├── NotNumericError                 text or objects instead of numbers
        ├── NonFiniteError                  NaN or infinity
        ├── LabelError                      labels are not two known classes
        │   └── NoPositiveError             average precision needs at least one positive
        ├── WeightError                     negative weights, or no weight left
        ├── FileError                       a file is missing or of unknown type
        │   ├── FileFormatError             the content of a file is invalid
        │   └── CheckpointError             a checkpoint of another fit, or a damaged one
        ├── ModelFileError                  not a model file, or a damaged one
        └── ParameterError                  a parameter is out of range
            ├── BackendError                a back end cannot run a surrogate or method
            ├── UnknownNameError            an unknown name
            └── UnreachableTargetError      no threshold reaches the target

Every message names the argument, shows its value, and says what is wrong and what to do. Errors
are raised before any state changes.
"""


class ApmaxError(Exception):
    """Base class: ``except ApmaxError`` catches everything that apmax raises deliberately."""


class RankError(ApmaxError, RuntimeError):
    """Another rank of the process group failed or did not answer."""


class PartitionError(ApmaxError, RuntimeError):
    """Workers that read a partition of the data ended repeatedly."""


class NoWorkerError(ApmaxError, RuntimeError):
    """A cluster has had no worker for too long."""


class InputError(ApmaxError, ValueError):
    """An argument cannot be used; also a ValueError, as scikit-learn users expect."""


class ShapeError(InputError):
    """An array is empty or has the wrong number of dimensions, or two lengths differ."""


class NotNumericError(InputError):
    """An array holds something other than real numbers."""


class NonFiniteError(InputError):
    """An array holds NaN or infinity, or exceeds the range of double precision."""


class LabelError(InputError):
    """Labels are not two classes, or the positive class is not specified."""


class NoPositiveError(LabelError):
    """There is no positive example, so average precision is undefined."""


class WeightError(InputError):
    """A sample weight is negative, or a class has no weight."""


class FileError(InputError):
    """A file is missing, cannot be opened, or has an unknown type."""


class FileFormatError(FileError):
    """The content of a file is invalid; the message says where and what was expected."""


class CheckpointError(FileError):
    """A checkpoint belongs to another fit or is damaged; the message lists what differs."""


class ModelFileError(InputError):
    """A file is not a model file, is damaged, or has another schema version."""


class ParameterError(InputError):
    """A parameter is out of range."""


class BackendError(ParameterError):
    """A back end cannot run a surrogate or method; the message says what is missing."""


class UnknownNameError(ParameterError):
    """A name is unknown; the message suggests the closest one."""


class UnreachableTargetError(ParameterError):
    """No threshold reaches the requested precision or recall, or no alert at all is cheapest."""
