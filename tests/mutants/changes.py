"""The changes that can be made to a source, one line at a time; and the entries that explain those that no test finds."""
import collections
import hashlib
import re
import sys

OTHERS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-", "-": "+",
          "+=": "-=", "-=": "+="}
DECLARATION = re.compile(r"\s*(?:(?:static|const|extern|volatile|typedef)\s|(?:struct|enum|union|unsigned|signed)\s+\w+"
                         r"|(?:\w+_t|int|bool|char|void|double|float|long|short|size_t|CU\w+|va_list|FILE|DIR)\s*[\s*]\w)")
FUNCTION = re.compile(r"[A-Za-z_][\w\s*]*?\b(\w+)\(")


class Mutant(collections.namedtuple("Mutant", "path line function before after nth")):
    """nth: of equal changes in a function, which one."""

    @property
    def key(self):
        return "\n".join([f"{self.path}: {self.function}", self.before.strip(), self.after.strip()])

    def drawn(self, seed):
        return hashlib.sha256(f"{seed}\n{self.key}\n{self.nth}".encode()).hexdigest()

    def __str__(self):
        return f"{self.path}:{self.line}: {self.function}\n  - {self.before.strip()}\n  + {self.after.strip()}"


# ---- changes ----


def blanked(text):
    """The text without comments, strings and directives, each character of them a blank."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
    return pattern.sub(lambda found: re.sub(r"[^\n]", "\x01" if found[0][0] in "\"'" else " ", found[0]), text)


def is_balanced(code):
    depth = 0
    for letter in code:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return depth == 0


def changes_of_line(code, line, is_bool, follows):
    """The line, changed. code: the line, blanked. follows: the code before it ends a statement, or a condition."""
    made = []

    def put(start, end, text):
        made.append(line[:start] + text + line[end:])

    for found in re.finditer(r" (==|!=|<=|>=|<|>|&&|\|\||\+|-|\+=|-=) ", code):
        put(found.start(1), found.end(1), OTHERS[found[1]])
    for found in re.finditer(r"!(?=[\w(])", code):
        put(found.start(), found.end(), "")
    for found in re.finditer(r"\+\+|--", code):
        put(found.start(), found.end(), "--" if found[0] == "++" else "++")
    for found in re.finditer(r"\b(true|false)\b", code):
        put(found.start(), found.end(), "false" if found[0] == "true" else "true")
    if not re.match(r"\s*case\b", code) and not re.match(r"[^=]*\[\d+\]", code):
        for found in re.finditer(r"(?<![\w.])(\d+)(?=u?\b)(?!\w*x)", code):
            put(found.start(1), found.end(1), "0" if found[1] == "1" else str(int(found[1]) + 1))
    found = re.match(r"(\s*(?:\} else )?if \()(.*)(\)(?: \{)?)$", code)
    if found and is_balanced(found[2]):
        put(found.start(2), found.end(2), "!(" + line[found.start(2):found.end(2)] + ")")
    found = re.match(r"\s*return (.+);$", code)
    if found and is_bool and found[1] not in ("true", "false") and is_balanced(found[1]):
        put(found.start(1), found.end(1), "!(" + line[found.start(1):found.end(1)] + ")")
    statement = re.match(r"(\s*)((?:\(void\))?[A-Za-z_*(][^{}]*;)$", code)
    if (statement and follows and is_balanced(code) and not DECLARATION.match(code)
            and not re.match(r"\s*(return|goto|assert|else|case|default|for|while|do|if|\(void\)\w+;)", code)):
        put(statement.start(2), statement.end(2), ";")
    return made


def mutants_of(path, text):
    """Of one file: all its mutants, from top to bottom."""
    lines, codes = text.split("\n"), blanked(text).split("\n")
    function, is_bool, depth, follows = None, False, 0, True
    seen = collections.Counter()
    for number, (line, code) in enumerate(zip(lines, codes), 1):
        code = code.rstrip()
        if depth == 0 and code[:1].strip():
            named = FUNCTION.match(code)
            function = named[1] if named else None
            is_bool = re.match(r"(static )?(inline )?bool \w+\(", code) is not None
        if depth > 0 and function and "assert(" not in code:
            for after in dict.fromkeys(changes_of_line(code, line, is_bool, follows)):
                key = (function, line.strip(), after.strip())
                yield Mutant(path, number, function, line, after, seen[key])
                seen[key] += 1
        depth += code.count("{") - code.count("}")
        if code.strip():
            follows = code[-1] in ";{}:)" or code.endswith("else")


# ---- what is explained ----


def read_explained(path):
    """The entries: key to reason."""
    explained = {}
    with open(path, encoding="utf-8") as file:
        blocks = re.split(r"\n\s*\n", file.read())
    for block in blocks:
        rows = [row for row in block.strip().split("\n") if row and not row.startswith("#")]
        if not rows:
            continue
        if len(rows) < 4 or not rows[1].startswith("- ") or not rows[2].startswith("+ "):
            sys.exit(f"{path}: not an entry with a reason:\n{block}")
        explained["\n".join([rows[0].strip(), rows[1][2:].strip(), rows[2][2:].strip()])] = " ".join(rows[3:])
    return explained
