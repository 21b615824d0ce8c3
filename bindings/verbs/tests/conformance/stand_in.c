/* Stands before libibverbs in a process (LD_PRELOAD), and says which of these calls come, in order.
 * It has no device. With STAND_IN_REFUSES it says that another library was there first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void called(const char *name)
{
    printf("stand-in: %s\n", name);
    fflush(stdout);
}

int ibv_fork_init(void)
{
    called("ibv_fork_init");
    return getenv("STAND_IN_REFUSES") ? EINVAL : 0;
}

void **ibv_get_device_list(int *count)
{
    static void *none[1];
    called("ibv_get_device_list");
    if (count)
        *count = 0;
    return none;
}

void ibv_free_device_list(void **list)
{
    (void)list;
}
