"""Faults that are nobody's lesson: machines, limits, cheats, reports without a cause, replies without a kernel."""

from __future__ import annotations

from memory.patterns.values import Pattern

_REPLY = "It is about the reply, not about a kernel: the prompt says how to answer."

PATTERNS = (
    Pattern(
        "time-limit",
        "time ran out",
        r"^(?:Subprocess )?[Tt]ime(?:d )?-?\s?out\b|^TimeoutError",
        kinds=("run.timeout", "load.timeout", "compile.timeout", "timed_out"),
        unfit="Time ran out: the machine may have been busy.",
    ),
    Pattern(
        "memory-limit",
        "memory ran out",
        r"out of memory|can't allocate memory|[Cc]annot allocate memory|^MemoryError",
        kinds=("run.oom", "load.oom", "out_of_memory"),
        unfit="Memory ran out: another process may have held it.",
    ),
    Pattern(
        "worker-lost",
        "no worker brought it to an end",
        kinds=("lost", "lost.attempts", "cancelled"),
        unfit="A worker was lost: nothing is known of the kernel.",
    ),
    Pattern(
        "process-died",
        "the candidate's process ended",
        r"ended the candidate's process",
        kinds=("run.died", "load.died"),
        nothing="The process ended without a word, so there is no cause to learn from.",
    ),
    Pattern(
        "device-unsupported",
        "this device cannot run it",
        kinds=("run.unsupported", "compile.incomplete", "time.nothing_launched", "unsupported"),
        unfit="The judge's device cannot do it: the kernel may be right elsewhere.",
    ),
    Pattern(
        "toolchain-broken",
        "the machine is broken, full or badly set up",
        r"no kernel image is available|unsupported toolchain|CUDA driver version is insufficient|libcuda\.so"
        r"|No CUDA GPUs are available|ptxas fatal|Failed to find C compiler"
        r"|No such file or directory: '?\S*(?:ptxas|gcc)\b"
        r"|No space left on device|Disk quota exceeded|Read-only file system|Permission denied: \S*\.triton\b"
        r"|Too many open files|can't start new thread|uncorrectable ECC|GPU is lost|fallen off the bus"
        r"|busy or unavailable"
        r"|CUDA (?:driver )?error: (?:unknown error|initialization error|system not yet initialized)"
        r"|CU(?:BLAS|DNN)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|^(?:BrokenPipe|ConnectionReset|ConnectionRefused)Error",
        unfit="The machine was broken, full or badly set up: no kernel could help it.",
    ),
    Pattern(
        "problem-refused",
        "the problem itself failed",
        r"^the reference",
        kinds=("problem.raises", "problem.memory", "problem.timeout", "problem.unsupported", "problem.tampers"),
        unfit="The problem's own code failed, not the kernel.",
    ),
    Pattern(
        "time-doubtful",
        "a time that could not be believed",
        kinds=("time.mismatch", "time.wrong_output", "compile.hidden"),
        unfit="The time was not believed: such a kernel is no evidence.",
    ),
    Pattern(
        "tampered",
        "the harness was touched",
        kinds=("tamper.channel", "tamper.harness", "kernel.decoy"),
        unfit="The kernel cheated: it is no evidence.",
    ),
    Pattern(
        "compiler-silent",
        "Triton refused it and the report leaves out why",
        r"^(?:triton\.\S+\.)?(?:CompilationError|CompileTimeAssertionFailure|PTXASError)$"
        r"|^[Cc]ompil(?:e|ation) failed\.?$",
        nothing="The report ends before the cause.",
    ),
    Pattern(
        "reply-without-kernel",
        "the reply holds no usable kernel",
        kinds=(
            "proposal.no_code",
            "proposal.no_patch",
            "proposal.several",
            "proposal.unclosed",
            "proposal.binary",
            "proposal.too_large",
            "proposal.cut_off",
            "proposal.refused",
        ),
        nothing=_REPLY,
    ),
    Pattern(
        "patch-does-not-apply",
        "the patches do not apply",
        kinds=("proposal.patch_mismatch", "proposal.bad_patch"),
        nothing=_REPLY,
    ),
    Pattern(
        "kernel-unchanged",
        "the reply changes nothing",
        kinds=("proposal.unchanged", "proposal.repeated"),
        nothing=_REPLY,
    ),
    Pattern(
        "nothing-proposed",
        "the built-in proposer had nothing to propose",
        kinds=("proposal.exhausted", "proposal.no_graph", "proposal.unsupported_graph"),
        nothing="Nobody wrote a kernel.",
    ),
    Pattern(
        "nothing-recorded",
        "the recording holds no further kernel",
        kinds=("proposal.not_recorded",),
        unfit="The recording that plays the proposer had no kernel for this step.",
    ),
)
