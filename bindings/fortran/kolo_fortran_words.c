/* The words of libkolo's sentences as Fortran has them.
 *
 * libkolo speaks of AllReduce, koloSum and 6 double; a Fortran program called kolo_allreduce with
 * KOLO_SUM and 6 real(8). One table says which word becomes which. Words are replaced whole, and
 * names of calls also where they begin with kolo. */
#include "kolo_fortran.h"
#include <ctype.h>
#include <string.h>

typedef enum {
    CALL,    /* a call, with or without the beginning kolo */
    NAME,    /* a name of kolo.h in full */
    TYPE,    /* a data type in a sentence */
    COUNTED, /* a data type whose name is an English word: only after 6 or 6 x */
    LISTED   /* an operation in a sentence: only after a comma */
} word_kind;

static const struct {
    const char *theirs, *ours;
    word_kind kind;
} words[] = {
    {"AllReduce", "kolo_allreduce", CALL},
    {"Broadcast", "kolo_bcast", CALL},
    {"Bcast", "kolo_bcast", CALL},
    {"Reduce", "kolo_reduce", CALL},
    {"AllGather", "kolo_allgather", CALL},
    {"Gather", "kolo_gather", CALL},
    {"Scatter", "kolo_scatter", CALL},
    {"ReduceScatter", "kolo_reduce_scatter", CALL},
    {"AllToAll", "kolo_alltoall", CALL},
    {"Barrier", "kolo_barrier", CALL},
    {"Send", "kolo_send", CALL},
    {"Recv", "kolo_recv", CALL},
    {"SendRecv", "kolo_sendrecv", CALL},
    {"ISendRecv", "kolo_isendrecv", CALL},
    {"GroupStart", "kolo_group_start", CALL},
    {"GroupEnd", "kolo_group_end", CALL},
    {"CommInit", "kolo_comm_init", CALL},
    {"CommInitMPI", "kolo_comm_init", CALL},
    {"CommInitTable", "kolo_comm_init", CALL},
    {"CommInitEnv", "kolo_comm_init_env", CALL},
    {"CommInitSlurm", "kolo_comm_init_slurm", CALL},
    {"CommInitRank", "kolo_comm_init_rank", CALL},
    {"CommInitRankConfig", "kolo_comm_init_rank", CALL},
    {"GetUniqueId", "kolo_get_unique_id", CALL},
    {"CommSplit", "kolo_comm_split", CALL},
    {"CommCount", "kolo_comm_size", CALL},
    {"CommUserRank", "kolo_comm_rank", CALL},
    {"CommFinalize", "kolo_comm_finalize", CALL},
    {"CommDestroy", "kolo_comm_destroy", CALL},
    {"CommAbort", "kolo_comm_abort", CALL},
    {"CommRegister", "kolo_comm_register", CALL},
    {"CommDeregister", "kolo_comm_deregister", CALL},
    {"StreamCreate", "kolo_stream_create", CALL},
    {"StreamDestroy", "kolo_stream_destroy", CALL},
    {"StreamSynchronize", "kolo_stream_synchronize", CALL},
    {"StreamQuery", "kolo_stream_query", CALL},
    {"GetLastError", "kolo_get_last_error", CALL},
    {"GetVersion", "kolo_version", CALL},
    {"AllGatherV", "kolo_allgatherv", CALL},
    {"AllToAllV", "kolo_alltoallv", CALL},
    {"CartCreate", "kolo_cart_create", CALL},
    {"Exscan", "kolo_exscan", CALL},
    {"GatherV", "kolo_gatherv", CALL},
    {"GraphCreate", "kolo_graph_create", CALL},
    {"GraphDegrees", "kolo_graph_degrees", CALL},
    {"GraphDestroy", "kolo_graph_destroy", CALL},
    {"GraphNeighbors", "kolo_graph_neighbors", CALL},
    {"IAllGather", "kolo_iallgather", CALL},
    {"IAllGatherV", "kolo_iallgatherv", CALL},
    {"IAllReduce", "kolo_iallreduce", CALL},
    {"IAllToAll", "kolo_ialltoall", CALL},
    {"IAllToAllV", "kolo_ialltoallv", CALL},
    {"IBarrier", "kolo_ibarrier", CALL},
    {"IBcast", "kolo_ibcast", CALL},
    {"IBroadcast", "kolo_ibcast", CALL},
    {"IExscan", "kolo_iexscan", CALL},
    {"IGather", "kolo_igather", CALL},
    {"IGatherV", "kolo_igatherv", CALL},
    {"INeighborAllGather", "kolo_ineighbor_allgather", CALL},
    {"INeighborAllGatherV", "kolo_ineighbor_allgatherv", CALL},
    {"INeighborAllToAll", "kolo_ineighbor_alltoall", CALL},
    {"INeighborAllToAllV", "kolo_ineighbor_alltoallv", CALL},
    {"IRecv", "kolo_irecv", CALL},
    {"IReduce", "kolo_ireduce", CALL},
    {"IReduceScatter", "kolo_ireduce_scatter", CALL},
    {"IReduceScatterV", "kolo_ireduce_scatterv", CALL},
    {"IScan", "kolo_iscan", CALL},
    {"IScatter", "kolo_iscatter", CALL},
    {"IScatterV", "kolo_iscatterv", CALL},
    {"ISend", "kolo_isend", CALL},
    {"NeighborAllGather", "kolo_neighbor_allgather", CALL},
    {"NeighborAllGatherV", "kolo_neighbor_allgatherv", CALL},
    {"NeighborAllToAll", "kolo_neighbor_alltoall", CALL},
    {"NeighborAllToAllV", "kolo_neighbor_alltoallv", CALL},
    {"koloSumExact", "KOLO_EXACT_SUM", NAME},
    {"SumExact", "kolo_sum_exact", CALL},
    {"SumExactArray", "kolo_sum_exact", CALL},
    {"SumExactDouble", "kolo_sum_exact", CALL},
    {"SumExactDoubleMasked", "kolo_sum_exact", CALL},
    {"SumExactFloat", "kolo_sum_exact", CALL},
    {"SumExactFloatMasked", "kolo_sum_exact", CALL},
    {"RedOpCreateUser", "kolo_op_create", CALL},
    {"RedOpCreateUserFor", "kolo_op_create", CALL},
    {"RedOpDestroy", "kolo_op_destroy", CALL},
    {"ReduceScatterV", "kolo_reduce_scatterv", CALL},
    {"Scan", "kolo_scan", CALL},
    {"ScatterV", "kolo_scatterv", CALL},
    {"Test", "kolo_test", CALL},
    {"Wait", "kolo_wait", CALL},
    {"WaitAll", "kolo_waitall", CALL},
    {"koloStream_t", "type(kolo_stream)", NAME},
    {"koloComm_t", "type(kolo_comm)", NAME},
    {"koloSum", "KOLO_SUM", NAME},
    {"koloProd", "KOLO_PROD", NAME},
    {"koloMax", "KOLO_MAX", NAME},
    {"koloMin", "KOLO_MIN", NAME},
    {"koloAvg", "KOLO_AVG", NAME},
    {"koloBand", "KOLO_BAND", NAME},
    {"koloBor", "KOLO_BOR", NAME},
    {"koloBxor", "KOLO_BXOR", NAME},
    {"koloLand", "KOLO_LAND", NAME},
    {"koloLor", "KOLO_LOR", NAME},
    {"koloLxor", "KOLO_LXOR", NAME},
    {"koloMinloc", "KOLO_MINLOC", NAME},
    {"koloMaxloc", "KOLO_MAXLOC", NAME},
    {"KOLO_SPLIT_NOCOLOR", "KOLO_UNDEFINED", NAME},
    {"int8", "integer(1)", TYPE},
    {"uint8", "bytes", TYPE},
    {"int32", "integer(4)", TYPE},
    {"int64", "integer(8)", TYPE},
    {"half", "real(2)", COUNTED},
    {"float", "real(4)", TYPE},
    {"double", "real(8)", TYPE},
    {"complex64", "complex(4)", TYPE},
    {"complex128", "complex(8)", TYPE},
    {"logical8", "logical(1)", TYPE},
    {"logical16", "logical(2)", TYPE},
    {"logical32", "logical(4)", TYPE},
    {"logical64", "logical(8)", TYPE},
    {"int_int", "pairs of integer(4)", TYPE},
    {"float_float", "pairs of real(4)", TYPE},
    {"double_double", "pairs of real(8)", TYPE},
    {"float_int", "pairs of real(4) and integer(4)", TYPE},
    {"double_int", "pairs of real(8) and integer(4)", TYPE},
    {"long_int", "pairs of integer(8) and integer(4)", TYPE},
    {"byte", "bytes", COUNTED},
    {"char", "characters", COUNTED},
    {"sum", "KOLO_SUM", LISTED},
    {"prod", "KOLO_PROD", LISTED},
    {"max", "KOLO_MAX", LISTED},
    {"min", "KOLO_MIN", LISTED},
    {"avg", "KOLO_AVG", LISTED},
    {"band", "KOLO_BAND", LISTED},
    {"bor", "KOLO_BOR", LISTED},
    {"bxor", "KOLO_BXOR", LISTED},
    {"land", "KOLO_LAND", LISTED},
    {"lor", "KOLO_LOR", LISTED},
    {"lxor", "KOLO_LXOR", LISTED},
    {"minloc", "KOLO_MINLOC", LISTED},
    {"maxloc", "KOLO_MAXLOC", LISTED},
};

static bool part_of_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether what stands before a word fits to its kind. */
static bool may_follow(word_kind kind, const char *sentence, const char *word) {
    const size_t before = (size_t)(word - sentence);
    if (kind == COUNTED)
        return before >= 2 && word[-1] == ' ' &&
               (isdigit((unsigned char)word[-2]) || (before >= 3 && word[-2] == 'x'));
    if (kind == TYPE) return strncmp(word, "double precision", 16) != 0;
    return kind != LISTED || (before >= 2 && word[-1] == ' ' && word[-2] == ',');
}

/* Whether a word is a part of a path (Test/send.f90), or of a word with hyphens; Send/Recv are the
 * two calls of a message. */
static bool in_a_name(const char *sentence, const char *word, size_t length) {
    static const char both[] = "Send/Recv";
    if (strncmp(word, both, strlen(both)) == 0) return false;
    if (word - sentence >= 5 && strncmp(word - 5, both, strlen(both)) == 0) return false;
    const char before = word == sentence ? ' ' : word[-1], *behind = word + length;
    if (before == '/' || before == '-' || before == '.') return true;
    return *behind == '/' || *behind == '-' || (*behind == '.' && part_of_word(behind[1]));
}

/* What to write in the place of a word of `length` characters, or NULL. */
static const char *translated(const char *sentence, const char *word, size_t length) {
    if (in_a_name(sentence, word, length)) return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *begin = word;
        size_t rest = length;
        if (words[i].kind == CALL && rest > 4 && strncmp(begin, "kolo", 4) == 0) {
            begin += 4;
            rest -= 4;
        }
        if (strlen(words[i].theirs) == rest && strncmp(words[i].theirs, begin, rest) == 0 &&
            may_follow(words[i].kind, sentence, word))
            return words[i].ours;
    }
    return NULL;
}

void kolo_fi_words(const char *sentence, char *text, size_t capacity) {
    const char *at = sentence;
    size_t used = 0;
    if (capacity == 0) return;
    while (*at && used + 1 < capacity) {
        const char *end = at, *ours;
        while (part_of_word(*end)) end++;
        if (end == at) end++;
        ours = translated(sentence, at, (size_t)(end - at));
        const char *from = ours ? ours : at;
        size_t length = ours ? strlen(ours) : (size_t)(end - at);
        if (length > capacity - 1 - used) length = capacity - 1 - used;
        memcpy(text + used, from, length);
        used += length;
        at = end;
    }
    text[used] = '\0';
}
