from __future__ import annotations

import json
import subprocess
import sys

import pytest

from memjax import config as config_lib
from memjax.errors import ConfigError, WorkdirError
from memjax.runs import workdir as workdir_lib
from memjax.runs.workdir import check_environment, check_same_run, exclusive, read_config, writing

HOLD = """
import subprocess, sys, time
from memjax.runs.workdir import exclusive
with exclusive(sys.argv[1]):
    if len(sys.argv) > 2:
        child = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, close_fds=False)
        print(child.pid, flush=True)
    else:
        print('held', flush=True)
    time.sleep(60)
"""


def hold(*arguments):
    process = subprocess.Popen([sys.executable, '-c', HOLD, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_a_second_training_is_refused_until_the_first_is_gone(tmp_path):
    holder, _ = hold(tmp_path)
    try:
        with pytest.raises(WorkdirError, match=rf'\Aanother training runs on {tmp_path}\Z'), exclusive(tmp_path):
            pass
        # Only process 0 of a training holds the directory for all of them.
        with exclusive(tmp_path, process_index=1):
            pass
    finally:
        holder.kill()
        holder.wait()
    with exclusive(tmp_path) as workdir:
        assert workdir == type(workdir)(tmp_path)


def test_programs_that_a_training_started_do_not_hold_its_directory(tmp_path):
    holder, child = hold(tmp_path, 'with a child')
    holder.kill()
    holder.wait()
    try:
        with exclusive(tmp_path):
            pass
    finally:
        subprocess.run(['kill', child], check=True)


def test_the_directory_is_free_again_after_the_context(tmp_path):
    for _ in range(2):
        with exclusive(tmp_path / 'new' / 'run'), pytest.raises(WorkdirError), exclusive(tmp_path / 'new' / 'run'):
            pass


def test_a_directory_that_cannot_be_written_is_one_line(tmpfs, tmp_path):
    read_only = tmpfs('size=1m,ro')
    with pytest.raises(WorkdirError, match=rf'\Acannot write {read_only}/run: Read-only file system\Z'):
        exclusive(read_only / 'run').__enter__()
    with pytest.raises(WorkdirError, match=rf'\Acannot write {read_only}: Read-only file system\Z'):
        exclusive(read_only).__enter__()
    (tmp_path / 'file').write_text('')
    with pytest.raises(WorkdirError, match=r'\Acannot write .*/file: '):
        exclusive(tmp_path / 'file').__enter__()


def test_a_file_system_without_locks_only_warns(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(38, 'Function not implemented')

    monkeypatch.setattr(workdir_lib.fcntl, 'flock', refuse)
    with exclusive(tmp_path):
        pass
    assert 'cannot be locked (Function not implemented)' in caplog.text


def test_other_errors_inside_pass_through(tmp_path):
    with pytest.raises(KeyError), exclusive(tmp_path), writing(tmp_path):
        raise KeyError


def make_config(**fields):
    config = config_lib.base_config()
    config.update_from_flattened_dict(fields)
    return config


def test_the_first_run_writes_its_config_and_a_resumed_one_may_change_what_may_change(tmp_path):
    config = make_config(**{'model.num_layers': 3, 'eval.compressors': ('gzip',)})
    check_same_run(tmp_path, config)
    assert read_config(tmp_path) == config
    longer = make_config(
        **{'model.num_layers': 3, 'training.num_steps': 2000, 'eval.warmup': 7, 'mesh.data': 2, 'training.log_every': 1}
    )
    check_same_run(tmp_path, longer)
    assert read_config(tmp_path) == longer


def test_another_run_is_refused_and_every_field_is_named_with_both_values(tmp_path):
    check_same_run(tmp_path, make_config())
    (tmp_path / 'checkpoints' / '4').mkdir(parents=True)
    before = (tmp_path / 'config.json').read_bytes()
    other = make_config(**{'model.num_layers': 5, 'data.name': 'enwik8', 'training.num_steps': 5})
    with pytest.raises(WorkdirError) as error:
        check_same_run(tmp_path, other)
    assert str(error.value) == (
        f"{tmp_path} holds another run: data.name is 'kjv' there, 'enwik8' here, model.num_layers is 4 there, 5 here"
    )
    assert (tmp_path / 'config.json').read_bytes() == before


def test_a_run_without_a_checkpoint_gives_way(tmp_path):
    check_same_run(tmp_path, make_config())
    (tmp_path / 'checkpoints' / '4.orbax-checkpoint-tmp').mkdir(parents=True)
    other = make_config(**{'model.num_layers': 5})
    check_same_run(tmp_path, other)
    assert read_config(tmp_path) == other


def test_a_directory_without_a_run_and_damaged_configs_are_user_errors(tmp_path):
    with pytest.raises(WorkdirError, match=r'holds no run: there is no config\.json'):
        read_config(tmp_path)
    (tmp_path / 'config.json').write_bytes(b'{"model": ')
    with pytest.raises(ConfigError, match=r'config\.json is not JSON'):
        check_same_run(tmp_path, make_config())
    (tmp_path / 'config.json').write_bytes(b'\xff')
    with pytest.raises(WorkdirError, match=r'cannot read .*config\.json'):
        read_config(tmp_path)


def test_a_full_disk_leaves_the_old_config(tmpfs):
    directory = tmpfs('size=16k')
    check_same_run(directory, make_config())
    before = (directory / 'config.json').read_bytes()
    (directory / 'filler').write_bytes(b'x' * (16 * 1024 - 4096 * (-(-len(before) // 4096))))
    with pytest.raises(WorkdirError, match=r'cannot write .*config\.json: No space left on device'):
        check_same_run(directory, make_config(**{'training.num_steps': 7}))
    assert (directory / 'config.json').read_bytes() == before
    assert sorted(path.name for path in directory.iterdir()) == ['config.json', 'filler']


def test_the_same_environment_is_silent_and_another_number_of_cpus_warns(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(workdir_lib, '_usable_cpus', lambda: 2)
    check_environment(tmp_path)
    check_environment(tmp_path)
    assert caplog.text == ''
    assert json.loads((tmp_path / 'environment.json').read_text())['cpus'] == 2
    monkeypatch.setattr(workdir_lib, '_usable_cpus', lambda: 64)
    check_environment(tmp_path)
    assert 'will not be equal to the bit: cpus 2 -> 64' in caplog.text


@pytest.mark.parametrize('damaged', ['', '[]', '{'])
def test_a_damaged_environment_is_written_anew(tmp_path, damaged):
    (tmp_path / 'environment.json').write_text(damaged)
    check_environment(tmp_path)
    assert json.loads((tmp_path / 'environment.json').read_text())['backend']
