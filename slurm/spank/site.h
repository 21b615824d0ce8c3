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

/* Whether a settings file has the table [profile.NAME]. */
enum kolo_has { KOLO_HAS_NOT, KOLO_HAS, KOLO_CANNOT_READ, KOLO_NOT_KNOWN };

/* Looks for it. KOLO_NOT_KNOWN: the file includes others, or writes profiles in another way. The
 * names of the profiles that it has go to `names`, a comma and a blank between two, as many as
 * there is room for. */
enum kolo_has kolo_has_profile(const char *file, const char *name, char *names, size_t room);

#endif
