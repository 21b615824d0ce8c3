/* The libraries that a profile of the site's settings preloads. */
#ifndef KOLO_SPANK_SITE_H
#define KOLO_SPANK_SITE_H

#include <stddef.h>

/* Longest name of a profile. */
enum { KOLO_MOST_NAME = 64 };

/* Whether this may be the name of a profile: letters, digits, '.', '_' and '-'. */
int kolo_is_name(const char *name);

/* Writes the paths of `preload` in the table [profile.NAME] of a settings file into `into`, a colon
 * behind each; how many there are. Of a file that cannot be read, is not understood there, or has
 * no such table, none. Only absolute paths count. */
size_t kolo_preloads(const char *file, const char *name, char *into, size_t room);

#endif
