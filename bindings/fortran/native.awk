# Makes of the interface of module kolo the one for gfortran, whose C descriptors cannot be trusted
# (kolo_fortran_native.c says why): procedures with arrays get gfortran's own descriptors.
#
#   awk -v stubs=FILE.c -f native.awk kolo_calls.inc >native/kolo_calls.inc
#
# A body with an array loses its bind(C), so that gfortran passes its own descriptors and calls the
# name with an underscore; FILE.c gets a function of that name, which makes C descriptors of them.

/^ *(subroutine|function) kolo_f_/ { inside = 1; body = "" }
!inside { print; next }
{ body = body $0 "\n" }
/^ *end (subroutine|function)/ {
    inside = 0
    if (body !~ /dimension\(\.\.\)/) { printf "%s", body; next }
    stub(body)
    sub(/( &\n *| )bind\(C, name="[^"]*"\)/, "", body)
    printf "%s", body
}

# The C type of what a function gives back.
function result_of(name) {
    if (name !~ /sum_exact/) return "void"
    if (name ~ /_r4/) return "float"
    if (name ~ /_r8/) return "double"
    return name ~ /_c4/ ? "float _Complex" : "double _Complex"
}

function stub(body,    text, name, list, n, names, i, lines, count, kinds, j, own, arguments, type,
              prototype, parameters) {
    text = body
    gsub(/ *& *\n */, " ", text)
    match(text, /kolo_f_[a-z0-9_]+ *\(/)
    name = substr(text, RSTART, RLENGTH)
    sub(/ *\($/, "", name)
    list = substr(text, RSTART + RLENGTH)
    sub(/\).*/, "", list)
    gsub(/ /, "", list)
    n = split(list, names, ",")
    # What each argument is: W an array to write, R one to read, S an integer array, or a pointer.
    count = split(text, lines, "\n")
    for (i = 1; i <= count; i++) {
        if (lines[i] !~ /::/) continue
        own = lines[i]
        sub(/.*:: */, "", own)
        gsub(/ /, "", own)
        j = split(own, kinds, ",")
        for (; j > 0; j--) {
            if (lines[i] ~ /dimension\(\.\.\)/)
                what[kinds[j]] = lines[i] ~ /intent\(in\)/ ? "R" : "W"
            else if (sub(/\(:\)$/, "", kinds[j]))
                what[kinds[j]] = "S"
            else
                what[kinds[j]] = ""
        }
    }
    for (i = 1; i <= n; i++) {
        parameters = parameters (i > 1 ? ", " : "") "const void *" names[i]
        prototype = prototype (i > 1 ? ", " : "") "const void *"
        if (what[names[i]] != "")
            own_lines = own_lines "    KOLO_" what[names[i]] "(" names[i] ");\n"
        arguments = arguments (i > 1 ? ", " : "") \
            (what[names[i]] != "" ? "d_" names[i] : names[i])
    }
    type = result_of(name)
    printf "%s %s(%s);\n", type, name, prototype >stubs
    printf "KOLO_ENTRY %s %s_(%s, size_t first, size_t second) {\n", type, name, parameters >stubs
    printf "    const size_t lengths[] = {first, second}, *length = lengths;\n" >stubs
    printf "%s    (void)length;\n", own_lines >stubs
    printf "    %s%s(%s);\n}\n", type == "void" ? "" : "return ", name, arguments >stubs
    own_lines = ""
}
