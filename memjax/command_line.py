"""What the launchers share: their flags, `--config.SECTION.FIELD=VALUE` overrides, and how a command ends.

A launcher is a `Command`: its help text, its flags, where its config comes from, and the function that it runs.
`main` parses the command line with `flags_parser`, and ends the process with

  0    done
  1    a fault of this project: any exception that is not listed here, with its traceback
  2    the user's to mend: one line `error: ..` on stderr
  130  interrupted by SIGINT (a command may end with other codes through SystemExit)
  141  the reader of standard output went away

Nothing here imports JAX, and a launcher imports it inside the function that it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import itertools
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging
from etils import epath
from ml_collections import config_dict, config_flags

from memjax import config_checks
from memjax.config import base_config, did_you_mean, flatten, from_file, from_json, optional_fields
from memjax.errors import ConfigError, UserError, WorkdirError

# What a run's checkpoint does not depend on. Everything else in its config.json is part of what was trained.
CHANGEABLE_AFTER_TRAINING = ('eval', 'sample', 'data.path')

_OVERRIDE = re.compile(r'--?(no)?config\.(?P<name>[^=]*)')


@dataclasses.dataclass(frozen=True)
class Command:
    """One launcher.

    Attributes:
      usage: what `--help` prints first: what the command does and examples.
      flags: the flags that it defines, besides `--help` and `--config.*`.
      load_config: the config before its overrides, given the parsed flags.
      run: does the work, given the parsed flags and the config.
      changeable: the sections and fields that overrides may name.
    """

    usage: str
    flags: flags.FlagValues
    load_config: Callable[[flags.FlagValues], config_dict.ConfigDict]
    run: Callable[[flags.FlagValues, config_dict.ConfigDict], None]
    changeable: tuple[str, ...] = tuple(base_config())


def main(command: Command, argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits the process, as this module's docstring says.

    Args:
      command: the launcher.
      argv: the program's name and its arguments; None: the process's own.
    """
    try:
        app.run(
            functools.partial(_run, command),
            argv=list(sys.argv if argv is None else argv),
            flags_parser=functools.partial(flags_parser, command),
        )
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's last flush complains
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except (UserError, OSError) as error:
        print('error:', _one_line(error), file=sys.stderr)
        sys.exit(2)


def flags_parser(command: Command, argv: Sequence[str]) -> config_dict.ConfigDict:
    """Parses the command's flags into `command.flags`; returns its config with overrides applied and checked.

    A known-only pass reads the command's own flags, because they say where the config comes from. Every `--config.*`
    flag is then defined from that config's fields and types.

    Raises:
      UserError: whatever is wrong with the flags or the config.
      SystemExit: 0, after `--help`.
    """
    own = command.flags
    flags.DEFINE_bool('help', False, 'print this and exit', short_name='h', flag_values=own, allow_override=True)
    flags.FLAGS(argv[:1])  # absl's own flags keep their defaults, and app.run wants them parsed
    with _flag_faults_are_the_users():
        rest = own(argv, known_only=True)
    if own.help:
        print(_help_text(command), flush=True)
        sys.exit(0)
    _refuse_unknown(command, rest[1:])
    config = command.load_config(own)
    with _flag_faults_are_the_users():
        _override(config, rest)
    config_checks.check(config)
    return config


def config_from_file(flag_values: flags.FlagValues) -> config_dict.ConfigDict:
    """The config of `--config=FILE`."""
    return from_file(required(flag_values, 'config'))


def config_from_workdir(flag_values: flags.FlagValues) -> config_dict.ConfigDict:
    """The config that the run in `--workdir` was trained with."""
    path = workdir(flag_values) / 'config.json'
    if not path.exists():
        raise WorkdirError(f'{path.parent} holds no run: there is no {path}')
    try:
        return from_json(path.read_text())
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f'{path} cannot be read: {error}') from error


def no_config(flag_values: flags.FlagValues) -> config_dict.ConfigDict:
    """For a command that takes no config of its own."""
    del flag_values
    return base_config()


def required(flag_values: flags.FlagValues, name: str) -> Any:
    """The value of a flag that the command cannot do without."""
    value = flag_values[name].value
    if not value:
        raise UserError(f'--{name} is needed: {flag_values[name].help}')
    return value


def workdir(flag_values: flags.FlagValues) -> epath.Path:
    """The directory of a run."""
    return epath.Path(required(flag_values, 'workdir')).expanduser()


def workdirs(flag_values: flags.FlagValues) -> list[epath.Path]:
    """The directories of several runs, each once."""
    return list(dict.fromkeys(epath.Path(each).expanduser() for each in required(flag_values, 'workdirs')))


def data_dir(flag_values: flags.FlagValues) -> epath.Path:
    """Where prepared corpora live."""
    return epath.Path(flag_values['data_dir'].value or os.environ.get('MEMJAX_DATA') or '~/.cache/memjax').expanduser()


def define_config_file(flag_values: flags.FlagValues) -> None:
    """Defines `--config`."""
    flags.DEFINE_string(
        'config',
        None,
        'the experiment, a Python file with get_config(), such as configs/demo_ct.py; '
        '--config.SECTION.FIELD=VALUE changes one of its fields',
        flag_values=flag_values,
    )


def define_workdir(flag_values: flags.FlagValues, meaning: str) -> None:
    """Defines `--workdir`."""
    flags.DEFINE_string('workdir', None, meaning, flag_values=flag_values)


def define_workdirs(flag_values: flags.FlagValues, meaning: str) -> None:
    """Defines `--workdirs`."""
    flags.DEFINE_list('workdirs', None, f'{meaning}, with commas between them', flag_values=flag_values)


def define_data_dir(flag_values: flags.FlagValues) -> None:
    """Defines `--data_dir`."""
    flags.DEFINE_string(
        'data_dir',
        None,
        'where prepared corpora live; by default $MEMJAX_DATA or ~/.cache/memjax',
        flag_values=flag_values,
    )


def define_step(flag_values: flags.FlagValues) -> None:
    """Defines `--step`, whose value is an int, 'best' or None."""
    flags.DEFINE(
        _StepParser(),
        'step',
        None,
        'the checkpoint: a step, or best for the best of validation; by default the newest',
        flag_values=flag_values,
    )


def define_integers(flag_values: flags.FlagValues, name: str, meaning: str) -> None:
    """Defines a flag whose value is a list of ints, written with commas."""
    flags.DEFINE(_NumbersParser(int, 'whole numbers'), name, None, meaning, flag_values=flag_values)


def define_floats(flag_values: flags.FlagValues, name: str, meaning: str) -> None:
    """Defines a flag whose value is a list of floats, written with commas."""
    flags.DEFINE(_NumbersParser(float, 'numbers'), name, None, meaning, flag_values=flag_values)


@contextlib.contextmanager
def _flag_faults_are_the_users() -> Iterator[None]:
    """absl and ml_collections raise all of these, and nothing more specific, for what a user typed."""
    try:
        yield
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(str(error)) from error


def _override(config: config_dict.ConfigDict, argv: list[str]) -> None:
    """Sets the fields that `--config.*` flags name; leaves nothing else in argv unnoticed."""
    flag_values = flags.FlagValues()
    config_flags.DEFINE_config_dict('config', config, flag_values=flag_values, sys_argv=argv)
    optional = optional_fields()
    for flag_name in flag_values:
        flag, field = flag_values[flag_name], flag_name.removeprefix('config.')
        if isinstance(flag, flags.MultiFlag):
            flag.parser = _TupleParser()
        elif field in optional:
            flag.parser = _OrNoneParser(flag.parser)
    strays = flag_values(argv)[1:]
    if strays:
        raise UserError(f'unexpected argument {strays[0]!r}: every argument is a flag, --NAME=VALUE')


def _refuse_unknown(command: Command, argv: list[str]) -> None:
    """Refuses flags that are neither the command's nor an override that it allows, and suggests the nearest."""
    fields = flatten(base_config())
    for argument in argv:
        if argument == '--':
            return
        flag = argument.split('=')[0]
        override = _OVERRIDE.match(argument)
        if override:
            name = override['name']
            if not command.changeable:
                raise UserError(f'unknown flag {flag}: this command takes no config')
            if name in base_config() and name not in fields:
                raise UserError(f'--config.{name} needs a field: --config.{name}.FIELD=VALUE')
            if name not in fields:
                raise UserError(f'unknown field {flag}{_nearest_field(name, fields)}')
            if not _is_among(name, command.changeable):
                raise UserError(f'{flag} cannot be changed here, only {_listed(command.changeable)}')
        elif flag in ('--config', '-config'):
            raise UserError('--config is not taken here: this command has its config from elsewhere (see --help)')
        elif re.match('--?[^-0-9]', flag):  # not the -1 of `--config.mesh.data -1`
            known = [f'--{name}' for name in (*_names(command), 'config')]
            raise UserError(f'unknown flag {flag}{did_you_mean(flag.split(".")[0], known)}')


def _nearest_field(name: str, fields: Iterable[str]) -> str:
    """A suggestion: the same word in another section, else the nearest in this one, if there is such a section."""
    section, _, word = name.rpartition('.')
    elsewhere = [field for field in fields if field.rpartition('.')[2] == word]
    if elsewhere:
        return f'; did you mean {elsewhere[0]}?'
    within = [field.rpartition('.')[2] for field in fields if field.rpartition('.')[0] == section]
    return did_you_mean(word, within) if within else did_you_mean(name, fields)


class _OrNoneParser(flags.ArgumentParser):
    """What another parser takes, or `none` for a field that may be None."""

    def __init__(self, parser: flags.ArgumentParser):
        self._parser = parser

    def parse(self, argument: Any) -> Any:
        if isinstance(argument, str) and argument.lower() == 'none':
            return None
        return self._parser.parse(argument)


class _TupleParser(flags.ArgumentParser):
    """A tuple as it arrives after the shell took its quotes away: `a,b`, `a`, nothing, or a Python literal."""

    def parse(self, argument: str) -> tuple[Any, ...]:
        try:
            value = ast.literal_eval(argument)
            return tuple(value) if isinstance(value, (tuple, list)) else (value,)
        except (ValueError, SyntaxError):
            words = [word.strip().strip('\'"') for word in argument.strip().strip('()[]').split(',')]
            return tuple(word for word in words if word)


class _StepParser(flags.ArgumentParser):
    """A checkpoint's name: a number of steps, or `best`."""

    def parse(self, argument: str) -> int | str:
        if argument == 'best':
            return argument
        if not argument.isdecimal():
            raise ValueError('should be a number of steps, or best')
        return int(argument)


class _NumbersParser(flags.ArgumentParser):
    """Numbers with commas between them, each once."""

    def __init__(self, number: type, plural: str):
        self._number, self._plural = number, plural

    def parse(self, argument: str) -> list[Any]:
        try:
            return list(dict.fromkeys(self._number(word) for word in argument.split(',')))
        except ValueError as error:
            raise ValueError(f'should be {self._plural} with commas between them') from error


def _run(command: Command, config: config_dict.ConfigDict) -> None:
    # app.run has just raised absl's verbosity to INFO, at which Orbax logs every file that it touches.
    logging.set_verbosity(logging.WARNING)
    command.run(command.flags, config)
    sys.stdout.flush()  # here, where a reader that went away can still be dealt with


def _one_line(error: Exception) -> str:
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f'{error.filename}: {error.strerror}' if error.filename else error.strerror
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return '; '.join(lines) or type(error).__name__


def _help_text(command: Command) -> str:
    wrapped = functools.partial(textwrap.wrap, width=100, break_on_hyphens=False)
    lines = [command.usage.strip(), '', 'Flags:']
    for name in _names(command):
        flag = command.flags[name]
        default = '' if flag.default in (None, False) else f' (default: {flag.default})'
        lines += [f'  --{name}', *wrapped(f'{flag.help}{default}', initial_indent=' ' * 6, subsequent_indent=' ' * 6)]
    if not command.changeable:
        return '\n'.join(lines)
    lines += ['', 'What --config.NAME=VALUE may change (none unsets a field that may be unset):']
    for _, fields in itertools.groupby(flatten(base_config()), lambda name: name.rpartition('.')[0]):
        changeable = [field for field in fields if _is_among(field, command.changeable)]
        lines += wrapped(', '.join(changeable), initial_indent='  ', subsequent_indent='    ')
    return '\n'.join(lines)


def _is_among(name: str, sections_and_fields: Iterable[str]) -> bool:
    return any(name == allowed or name.startswith(f'{allowed}.') for allowed in sections_and_fields)


def _names(command: Command) -> list[str]:
    return [name for name in command.flags if len(name) > 1]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f'{", ".join(words[:-1])} and {words[-1]}'
