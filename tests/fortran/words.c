/* Sentences of libkolo in the words of Fortran: what is a name becomes one, and nothing else. */
#include "kolo_fortran.h"
#include <stdio.h>
#include <string.h>

static const char *const pairs[][2] = {
    {"rank 1 called Send/Recv of 4 double, but",
     "rank 1 called kolo_send/kolo_recv of 4 real(8), but"},
    {"Send/Recv", "kolo_send/kolo_recv"},
    {"koloAllReduce of 2 double, sum", "kolo_allreduce of 2 real(8), KOLO_SUM"},
    {"Called by step (Test/Send.f90:7)", "Called by step (Test/Send.f90:7)"},
    {"the file Recv/data of a-Send-b", "the file Recv/data of a-Send-b"},
    {"ReSend, Recvs and AllReduced", "ReSend, Recvs and AllReduced"},
};

int main(void)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[200];
        memset(text, 'x', sizeof text);
        kolo_fi_words(pairs[i][0], text, sizeof text);
        if (strcmp(text, pairs[i][1]) == 0) continue;
        fprintf(stderr, "%s\n  became %s\n  and not %s\n", pairs[i][0], text, pairs[i][1]);
        wrong++;
    }
    return wrong != 0;
}
