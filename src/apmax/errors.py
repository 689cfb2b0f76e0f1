"""Everything apmax raises on purpose, as one tree.

::

    ApmaxError
    ├── MissingExtraError (an ImportError)  a package that `apmax[data]` would bring is missing
    ├── DownloadError                       data that could not be fetched
    ├── RankError (a RuntimeError)          a process that trains with us did not answer
    └── InputError (also a ValueError)      what was passed in cannot be used
        ├── EmptyInputError                 there is nothing to work on
        ├── ShapeError                      wrong number of dimensions, or lengths that differ
        ├── NotNumericError                 text or objects where numbers are needed
        ├── NonFiniteError                  NaN or infinity
        ├── LabelError                      labels that are not two known classes
        │   └── NoPositiveError             AP needs at least one positive
        ├── WeightError                     negative weights, or none left
        ├── FileError                       no file there, or none of a known kind
        │   ├── FileFormatError             a file whose content is broken, and where
        │   └── CheckpointError             a checkpoint of another fit, in use, or damaged
        ├── ModelFileError                  a file that holds no model of ours, or a broken one
        └── ParameterError                  an option outside its range
            ├── BackendError                a surrogate or method that this back end cannot run
            ├── UnknownNameError            a name that is not in the list
            └── UnreachableTargetError      no threshold meets the wish

Every message names the argument, shows the value, says why it cannot be used and what
to do instead. An error is raised before anything is changed.
"""


class ApmaxError(Exception):
    """Root of the tree: ``except ApmaxError`` catches all that apmax raises on purpose."""


class MissingExtraError(ApmaxError, ImportError):
    """An optional package is needed and not installed; the message says which extra brings it."""


class DownloadError(ApmaxError):
    """A data set could not be fetched; the message says how to provide it by hand."""


class RankError(ApmaxError, RuntimeError):
    """Another rank of the process group hangs or died; what is left of the run cannot go on."""


class InputError(ApmaxError, ValueError):
    """An argument cannot be used. Also a ValueError, as scikit-learn's users expect."""


class EmptyInputError(InputError):
    """An array has no elements."""


class ShapeError(InputError):
    """An array has the wrong number of dimensions, or two lengths differ."""


class NotNumericError(InputError):
    """An array holds something that is not a real number."""


class NonFiniteError(InputError):
    """An array holds NaN or infinity, or a range that double precision cannot hold."""


class LabelError(InputError):
    """Labels are not two classes, or it is not said which class is positive."""


class NoPositiveError(LabelError):
    """No positive example: average precision is undefined."""


class WeightError(InputError):
    """A sample weight is negative, or all positives weigh nothing."""


class FileError(InputError):
    """A file is not there, cannot be opened, or is of no known kind."""


class FileFormatError(FileError):
    """A file's content is broken; the message says where and what was expected."""


class CheckpointError(FileError):
    """A checkpoint belongs to another fit, is in use by one, or is damaged."""


class ModelFileError(InputError):
    """A file holds no model, one of a newer apmax, or one that is broken or forged."""


class ParameterError(InputError):
    """An option is outside its range."""


class BackendError(ParameterError):
    """A surrogate or method that the chosen back end cannot run; the message says what is missing."""


class UnknownNameError(ParameterError):
    """A name that apmax does not know; the message suggests the nearest one."""


class UnreachableTargetError(ParameterError):
    """No threshold reaches the precision or recall that was asked for."""
