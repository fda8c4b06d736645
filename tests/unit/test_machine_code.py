"""Whether the C++ compiler ran is told by torch's phases: the compiler's own, while a generated module is loaded."""

from compilescope.facts import Code, Compile, Kernel, Phase
from compilescope.reading.machine_code import with_cpp_cache


def compiled(compile_id="0/0", language="cpp"):
    return Compile(compile_id, code=(Code("0/0", "forward", "", (Kernel("k", language),)),))


def frame(start, *inside):
    return (Phase("entire_frame_compile", "0/0", start, 10.0), *inside)


def load(start):
    return Phase("PyCodeCache.load_by_key_path", "0/0", start, 2.0)


def compiler(start):
    return Phase("compile_file", None, start, 1.0)


def caches(phases, *compiles):
    return [one.caches for one in with_cpp_cache(compiles or (compiled(),), phases)]


def test_a_compiler_that_runs_while_the_code_is_loaded_is_a_miss():
    assert caches(frame(0.0, load(5.0), compiler(5.5))) == [{"cpp": "miss"}]


def test_without_one_it_is_a_hit_also_if_torch_probed_the_machine_before():
    assert caches(frame(0.0, load(5.0))) == [{"cpp": "hit"}]
    assert caches(frame(0.0, compiler(1.0), load(5.0))) == [{"cpp": "hit"}]


def test_no_cpp_kernel_no_fact():
    assert caches(frame(0.0, load(5.0)), compiled(language="triton")) == [{}]


def test_after_a_reset_the_second_compile_with_a_number_has_its_own_answer():
    phases = (*frame(0.0, load(5.0), compiler(5.5)), *frame(20.0, load(25.0)))
    assert caches(phases, compiled("0/0"), compiled("0/0#2")) == [{"cpp": "miss"}, {"cpp": "hit"}]
