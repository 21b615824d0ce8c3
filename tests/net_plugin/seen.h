/* What a process has when its network opens: connections by TCP, and kolo's service thread. */
#ifndef SEEN_H
#define SEEN_H

#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_connected(int fd) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

static int is_service(const char *task) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    if (fgets(name, sizeof name, file) == NULL) name[0] = 0;
    fclose(file);
    return strncmp(name, "kolo service", 12) == 0;
}

/* The number of entries of a folder of /proc for which `counts` says yes. */
static int number_of(const char *folder, int (*counts)(const char *)) {
    int number = 0;
    DIR *all = opendir(folder);
    for (struct dirent *one; all && (one = readdir(all));) number += counts(one->d_name);
    if (all) closedir(all);
    return number;
}

static int is_connection(const char *fd) {
    return fd[0] != '.' && is_connected(atoi(fd));
}

static void write_seen(const char *path) {
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", path, (int)getpid());
    FILE *file = fopen(name, "a");
    if (file == NULL) abort();
    fprintf(file, "connections: %s, service: %s\n",
            number_of("/proc/self/fd", is_connection) > 0 ? "yes" : "no",
            number_of("/proc/self/task", is_service) > 0 ? "yes" : "no");
    fclose(file);
}

#endif
