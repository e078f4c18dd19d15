"""P5: importing the library, and using it, changes nothing around it."""

from properties.helpers import SRC, run_python

SNAPSHOT = """
import json, logging, multiprocessing, os, random, signal, sys, warnings
import numpy as np, torch

def snapshot():
    root = logging.getLogger()
    return {
        "handlers": list(root.handlers),
        "level": (root.level, root.disabled, logging.root.manager.disable),
        "filters": list(warnings.filters),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "tf32": (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
        "matmul": torch.get_float32_matmul_precision(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "start method": multiprocessing.get_start_method(allow_none=True),
        # torch's compiler, which transformers imports, notes there where its cache lies.
        "environ": {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"},
        "path": list(sys.path),
        "numpy errors": np.geterr(),
        "excepthook": sys.excepthook,
        "interrupt": signal.getsignal(signal.SIGINT),
        "random": random.getstate(),
        "numpy random": repr(np.random.get_state()),
        "torch random": torch.get_rng_state().tolist(),
    }

def changes(before):
    after = snapshot()
    return [name for name in before if before[name] != after[name]]
"""

IMPORT_ALL = """
import importlib, pkgutil
import voiceanon
names = sys.argv[1:]
if not names:  # to walk packages is to import them
    found = pkgutil.walk_packages(voiceanon.__path__, "voiceanon.")
    names = [module.name for module in found if not module.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
"""


def test_importing_every_module_changes_nothing():
    code = f"{SNAPSHOT}\nbefore = snapshot()\n{IMPORT_ALL}\n"
    (report,) = run_python(code + "print(json.dumps([changes(before), names]))")
    changed, names = report
    # rich, which the command line is made of, draws a random number for each of its styles.
    assert set(changed) <= {"random"}
    files = [path.relative_to(SRC) for path in (SRC / "voiceanon").rglob("*.py")]
    modules = {".".join(path.with_suffix("").parts) for path in files}
    expected = {name.removesuffix(".__init__") for name in modules} - {"voiceanon"}
    expected = {name for name in expected if not name.endswith("__main__")}
    assert set(names) == expected  # none is forgotten, for lack of an __init__.py or otherwise

    programs = ("voiceanon.cli", "voiceanon.eval.app")
    library = [name for name in names if not name.startswith(programs)]
    (report,) = run_python(code + "print(json.dumps(changes(before)))", *library)
    assert report == []


def test_importing_every_module_writes_no_file_and_starts_nothing():
    code = """
import json, os, sys, torch, numpy
events = []
def watch(event, args):
    if event == "open":
        path, _, flags = args
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            events.append([event, str(path)])
    elif event in ("os.mkdir", "socket.connect", "socket.getaddrinfo", "subprocess.Popen",
                   "os.system", "os.fork", "os.posix_spawn"):
        events.append([event, str(args[0])])
sys.addaudithook(watch)
"""
    (events,) = run_python(
        f"{code}\n{IMPORT_ALL}\nprint(json.dumps(events))", PYTHONDONTWRITEBYTECODE="1"
    )
    package = str(SRC / "voiceanon")
    # The compiler of the CPU kernels tries out its cache folder, which lies in the package.
    allowed = ("open", "os.mkdir")
    assert [e for e in events if not (e[0] in allowed and e[1].startswith(package))] == []


def test_the_top_module_brings_in_no_heavy_package():
    code = """
import json, sys
import voiceanon
heavy = ("transformers librosa numba pyworld encodec matplotlib typer rich torchaudio scipy "
         "huggingface_hub phonemizer jiwer sklearn ray datasets").split()
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
    assert run_python(code) == [[]]


def test_using_every_system_changes_nothing():
    code = """
from properties import systems
import signals
systems.register_own()
wav = signals.speech(0.5)
found = {}
for name in systems.FAMILY_IDS:
    before = snapshot()
    system = systems.build(name)
    for seed in (None, 7):
        system.anonymize(wav, 16000, seed=seed)
    found[name] = changes(before)
print(json.dumps(found))
"""
    (found,) = run_python(SNAPSHOT + code)
    assert {name: changed for name, changed in found.items() if changed} == {}
    assert found
