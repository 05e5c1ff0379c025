# tests/gdb/fibers.py: gdb command "fibers": the stack of every fiber that does not run.
#
#     gdb -p PID -ex 'source tests/gdb/fibers.py' -ex fibers
#
# A suspended fiber's context is what jump_fcontext left on its stack: the registers that a call preserves and the return address. The command puts them
# into the selected thread's registers, asks for a backtrace and puts back what was there; so it needs a live process, stopped. x86-64 only.
import gdb

# Boost.Context's layout for x86-64 System V: offsets from the context pointer.
SAVED = {"r12": 0x08, "r13": 0x10, "r14": 0x18, "r15": 0x20, "rbx": 0x28, "rbp": 0x30, "rip": 0x38}
AFTER = 0x40
STATES = {1: "ready", 3: "parked"}


def text(value):
    return value.string() if int(value) else "-"


def registers_of(context):
    memory = gdb.selected_inferior().read_memory(context, AFTER)
    found = {name: int.from_bytes(memory[at:at + 8], "little") for name, at in SAVED.items()}
    found["rsp"] = context + AFTER
    return found


def set_registers(values):
    for name, value in values.items():
        gdb.execute("set $%s = %d" % (name, value), to_string=True)


def backtrace_of(context):
    gdb.execute("frame 0", to_string=True)
    names = list(SAVED) + ["rsp"]
    saved = {name: int(gdb.parse_and_eval("(unsigned long)$" + name)) for name in names}
    set_registers(registers_of(context))
    try:
        return gdb.execute("backtrace", to_string=True)
    finally:
        set_registers(saved)


def fibers():
    reactors = gdb.parse_and_eval("reactors")
    for i in range(int(gdb.parse_and_eval("reactors_count"))):
        reactor = reactors[i]
        for j in range(int(reactor["fiber_count"])):
            yield i, j, reactor["fibers"][j]


class Fibers(gdb.Command):
    """Show the stack of every suspended fiber of every reactor."""

    def __init__(self):
        super().__init__("fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for reactor, slot, fiber in fibers():
            state = STATES.get(int(fiber["state"]))
            if not state:
                continue
            print("reactor %d fiber %d %s tag %#x: %s, %s" % (reactor, slot, state, int(fiber["tag"]), text(fiber["what"]), text(fiber["why"])))
            print(backtrace_of(int(fiber["context"])))


Fibers()
