/* A program that loads libkolo itself and closes it again: with its communicators destroyed, and
   with live ones. kolo's threads, and what it does at exit and after fork, must outlive that. */
#include "kolo.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef koloResult_t (*InitAll)(koloComm_t *, int, const int *);
typedef koloResult_t (*Destroy)(koloComm_t);

static void check(int good, const char *what) {
    if (!good) {
        const char *why = dlerror();
        fprintf(stderr, "unload: %s%s%s\n", what, why ? ": " : "", why ? why : "");
        exit(1);
    }
}

int main(int argc, char **argv) {
    check(argc == 2, "name the library");
    for (int live = 0; live < 2; live++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        check(library != NULL, "dlopen");
        InitAll init_all = (InitAll)dlsym(library, "koloCommInitAll");
        Destroy destroy = (Destroy)dlsym(library, "koloCommDestroy");
        check(init_all && destroy, "dlsym");
        koloComm_t comms[2];
        check(init_all(comms, 2, NULL) == koloSuccess, "koloCommInitAll");
        for (int rank = 0; rank < 2 && !live; rank++)
            check(destroy(comms[rank]) == koloSuccess, "koloCommDestroy");
        check(dlclose(library) == 0, "dlclose");
        /* The service thread runs its code again when it is woken, here by strangers and later. */
        usleep(200 * 1000);
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0)
            _exit(0);
        int status = 1;
        check(waitpid(child, &status, 0) == child && status == 0, "the child of a fork");
    }
    puts("unload: ok");
    return 0;
}
