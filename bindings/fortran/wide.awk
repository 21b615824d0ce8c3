# Gives the procedures of module kolo forms for programs whose default integer has 8 bytes, as
# -fdefault-integer-8 and -i8 make it: all their numbers, ierror and logical arguments have 8 bytes.
#
#   awk -v stubs=FILE.c -f wide.awk kolo.f90 kolo.f90 >wide/kolo.f90
#
# The file is read twice. A body with integers of 4 bytes gets a twin of the name NAME_w, and FILE.c
# a function of that name, which hands the numbers on as integers of 4 bytes. Constants of kolo such
# as KOLO_NO_RANK keep 4 bytes: where one may stand, there is a form for it too. A form for counts
# of 4 bytes gets no twin, as the one for 8 bytes does. Arrays of numbers are handed on by functions
# that stand in kolo_fortran_wide.c.

FNR == 1 { pass++; inside = contained = 0 }
/^contains/ { contained = 1; if (pass == 2) generics() }

# Procedures of the module itself.
contained && /^  (pure |logical )*(subroutine|function) kolo_/ { inside = 1; body = "" }
# Interface bodies.
!contained && /^ *(subroutine|function) kolo_f_/ { inside = 1; body = "" }
!inside && pass == 2 { print }
!inside && pass == 2 && /^ *procedure kolo_op_create/ { gsub(/kolo_[a-z_]+/, "&_w"); print }
!inside { next }
{ body = body $0 "\n" }
/^ *end (subroutine|function)/ {
    inside = 0
    if (pass == 2) printf "%s", body
    if (contained) module_procedure(body)
    else if (pass == 2) interface_body(body)
}

# The generic names of procedures that were specific ones.
function generics(    i) {
    for (i = 1; i <= specifics; i++) {
        printf "  interface %s\n    procedure %s, %s_w\n", specific[i], specific[i], specific[i]
        print "  end interface\n"
    }
}

function name_of(body) {
    match(body, /kolo_[a-z0-9_]+ *\(/)
    return substr(body, RSTART, RLENGTH - 1)
}

# Whether anything but ierror tells the twin from the body.
function differs(body) {
    gsub(/integer\(c_int32_t\), intent\(out\)(, optional)? :: ierror/, "", body)
    return body ~ /\n *(integer\(c_int32_t\)|logical), intent/
}

function module_procedure(body,    name) {
    name = name_of(body)
    if (body !~ /\n *(integer\(c_int32_t\)|logical), intent/) return
    if (pass == 1) {
        if (name !~ /^kolo_op_create/) specific[++specifics] = name
        return
    }
    if (!differs(body)) sub(/, optional :: ierror/, " :: ierror", body)
    gsub(/c_int32_t/, "c_int64_t", body)
    gsub(/logical, intent/, "logical(8), intent", body)
    gsub(name, name "_w", body)
    gsub(/call kolo_f_[a-z_]+/, "&_w", body)
    # What is called has no twin where it has no integer of 4 bytes.
    printf "\n%s", body
}

# What may be a constant of kolo.
function may_be_constant(name) { return name ~ /^(color|dest|source|peer)$/ }

function interface_body(body,    name, lines, n, i, j, bits, constants, most, kinds, args, count) {
    name = name_of(body)
    if (body !~ /c_int32_t/ || name ~ /_[dx]?4s?$/) return
    n = split(body, lines, "\n")
    constants = 0
    for (i = 1; i <= n; i++) {
        if (lines[i] !~ /c_int32_t\).*::/) continue
        count = split(names_in(lines[i]), args, ",")
        for (j = 1; j <= count; j++) if (may_be_constant(args[j])) constants++
    }
    most = 2 ^ constants
    for (bits = 0; bits < most; bits++) twin(name, lines, n, bits)
}

function names_in(line) {
    sub(/.*:: */, "", line)
    gsub(/ /, "", line)
    return line
}

# A twin in which those constants keep 4 bytes that `bits` has.
function twin(name, lines, n, bits,    own, text, i, j, count, args, arg, at, how, has_others, last,
              line, numbers, arrays) {
    own = name "_w" (bits ? bits : "")
    at = bits
    text = last = ""
    for (i = 1; i < n; i++) {
        line = lines[i]
        gsub(name, own, line)
        if (line !~ /c_int32_t\).*::/) {
            # ierror is the last argument, and its line comes when all others are known.
            if (line ~ /^ *end /) text = text last
            text = text (line ~ /only: c_int32_t/ ? kind_8(line) : line) "\n"
            continue
        }
        how = line
        sub(/::.*/, ":: ", how)
        count = split(names_in(line), args, ",")
        for (j = 1; j <= count; j++) {
            arg = args[j]
            if (arg == "ierror") { last = how arg "\n"; numbers[arg] = "E"; continue }
            if (may_be_constant(arg)) {
                if (at % 2) { text = text how arg "\n"; at = int(at / 2); continue }
                at = int(at / 2)
            }
            has_others = 1
            if (arg ~ /\(\*\)/) arrays = 1
            text = text kind_8(how) arg "\n"
            numbers[arg] = how ~ /intent\(in\)/ ? "I" : "O"
        }
    }
    last = kind_8(last)
    if (!has_others) sub(/, optional/, "", last)
    sub(/[^\n]*:: ierror\n/, last, text)
    printf "%s", text
    if (!arrays && name !~ /op_create_plain/) stub(text, own, name, numbers)
}

function kind_8(text) {
    gsub(/c_int32_t/, "c_int64_t", text)
    return text
}

# The C type of what a function gives back.
function result_of(name) {
    if (name !~ /sum_exact/) return "void"
    if (name ~ /_r4/) return "float"
    if (name ~ /_r8/) return "double"
    return name ~ /_c4/ ? "float _Complex" : "double _Complex"
}

# The function in C: numbers go through variables of 4 bytes.
function stub(text, own, name, numbers,    list, args, n, i, arg, type, before, after, given,
              parameters, prototype, mark, comma, is_read) {
    gsub(/ *& *\n */, " ", text)
    match(text, /\(.*/)
    list = substr(text, RSTART + 1)
    sub(/\).*/, "", list)
    gsub(/ /, "", list)
    n = split(list, args, ",")
    type = result_of(name)
    before = after = given = parameters = prototype = ""
    for (i = 1; i <= n; i++) {
        arg = args[i]
        mark = numbers[arg]
        comma = i > 1 ? ", " : ""
        is_read = mark == "" || mark == "I"
        parameters = parameters comma (is_read ? "const void *" : "int64_t *") arg
        prototype = prototype comma (is_read ? "const void *" : "int32_t *")
        given = given comma
        if (mark == "") { given = given arg; continue }
        given = given (mark == "E" ? arg " ? &n_" arg " : NULL" : "&n_" arg)
        if (mark == "I")
            before = before "    const int32_t n_" arg " = " \
                (arg == "mpi_comm" ? "kolo_fi_low" : "kolo_fi_narrow") "(" arg ");\n"
        else {
            before = before "    int32_t n_" arg " = " \
                (mark == "E" ? "0" : "kolo_fi_low(" arg ")") ";\n"
            after = after "    " (mark == "E" ? "if (" arg ") " : "") "*" arg " = n_" arg ";\n"
        }
    }
    printf "%s %s(%s);\n", type, name, prototype >stubs
    printf "KOLO_ENTRY %s %s(%s) {\n%s", type, own, parameters, before >stubs
    printf "    %s%s(%s);\n", type == "void" ? "" : "const " type " result = ", name, given >stubs
    printf "%s%s}\n", after, type == "void" ? "" : "    return result;\n" >stubs
}
