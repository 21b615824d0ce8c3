/* Reads one key of one table of kolo's settings.
 *
 * Problem: the plugin runs inside Slurm's daemons, where a TOML library has no place, and must bear
 * any file.
 *
 * Idea: it understands what it needs and passes over the rest: headers of tables, comments, and
 *
 *     [profile.NAME]
 *     preload = "/path/to/library.so"
 *     preload = ["/path/to/one.so", "/path/to/another.so"]      # may go on over several lines
 *
 * with strings in "double" or 'single' quotes and without escapes. kolo itself reads the whole
 * file, and says where it is wrong (`kolo config check`). */
#include "site.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINE = 4096, MOST_LINES = 100000 };

/* The characters of names of profiles. */
#define KOLO_OF_NAMES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

int kolo_is_name(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > KOLO_MOST_NAME)
		return 0;
	return strspn(name, KOLO_OF_NAMES) == n;
}

static const char *past_blanks(const char *at)
{
	while (isspace((unsigned char)*at))
		at++;
	return at;
}

/* Behind `word` if the text begins with it, else NULL. */
static const char *past(const char *at, const char *word)
{
	size_t n = strlen(word);

	return at && strncmp(at, word, n) == 0 ? at + n : NULL;
}

/* Whether a line is a header [profile.NAME], whose name goes to `name`; it may stand in quotes. */
static int is_header(const char *line, char name[KOLO_MOST_NAME + 1])
{
	const char *at = past(line, "[");
	char quote = 0;
	size_t n;

	at = at ? past(past_blanks(at), "profile") : NULL;
	at = at ? past(past_blanks(at), ".") : NULL;
	if (!at)
		return 0;
	at = past_blanks(at);
	if (*at == '"' || *at == '\'')
		quote = *at++;
	n = strspn(at, KOLO_OF_NAMES);
	if (n == 0 || n > KOLO_MOST_NAME)
		return 0;
	memcpy(name, at, n);
	name[n] = 0;
	at += n;
	if (quote)
		at = *at == quote ? at + 1 : NULL;
	at = at ? past(past_blanks(at), "]") : NULL;
	if (!at)
		return 0;
	at = past_blanks(at);
	return *at == 0 || *at == '#';
}

/* Appends a path and a colon, if it is one and there is room. */
static size_t append(const char *from, size_t n, char *into, size_t room)
{
	size_t used = strlen(into);

	/* ld.so divides its list at colons and blanks, so such a path cannot be named there. */
	if (n == 0 || *from != '/' || memchr(from, ':', n) || memchr(from, ' ', n))
		return 0;
	if (used + n + 2 > room)
		return 0;
	memcpy(into + used, from, n);
	memcpy(into + used + n, ":", 2);
	return 1;
}

/* Takes the strings of a line; sets *open to whether a list goes on in the next line. */
static size_t take(const char *at, int *open, char *into, size_t room)
{
	size_t found = 0;

	for (;;) {
		const char *end;

		at = past_blanks(at);
		switch (*at) {
		case '[':
			*open = 1;
			at++;
			break;
		case ',':
			at++;
			break;
		case '"':
		case '\'':
			end = strchr(at + 1, *at);
			if (!end) {
				*open = 0;
				return found;
			}
			found += append(at + 1, (size_t)(end - at) - 1, into, room);
			at = end + 1;
			break;
		case 0:
		case '#':
			return found;
		default: /* the end of the list, or what is not understood */
			*open = 0;
			return found;
		}
	}
}

/* Opens an ordinary file: whatever else stands there (a pipe, say) must not hold up the job. */
static FILE *open_file(const char *name)
{
	struct stat about;
	FILE *file;
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || !(file = fdopen(fd, "r"))) {
		close(fd);
		return NULL;
	}
	return file;
}

size_t kolo_preloads(const char *file, const char *name, char *into, size_t room)
{
	char line[MOST_LINE], header[KOLO_MOST_NAME + 1];
	int inside = 0, open = 0;
	size_t found = 0;
	FILE *from;

	if (room == 0)
		return 0;
	*into = 0;
	if (!kolo_is_name(name) || !(from = open_file(file)))
		return 0;
	for (int n = 0; n < MOST_LINES && fgets(line, sizeof line, from); n++) {
		const char *at = past_blanks(line);

		if (open) {
			found += take(at, &open, into, room);
			continue;
		}
		if (*at == '[') {
			inside = is_header(at, header) && strcmp(header, name) == 0;
			continue;
		}
		at = inside ? past(at, "preload") : NULL;
		at = at ? past(past_blanks(at), "=") : NULL;
		if (at)
			found += take(at, &open, into, room);
	}
	fclose(from);
	return found;
}

enum kolo_has kolo_has_profile(const char *file, const char *name, char *names, size_t room)
{
	char line[MOST_LINE], header[KOLO_MOST_NAME + 1];
	enum kolo_has has = KOLO_HAS_NOT;
	size_t used = 0;
	int top = 1;
	FILE *from;

	*names = 0;
	if (!(from = open_file(file)))
		return KOLO_CANNOT_READ;
	for (int n = 0; n < MOST_LINES && fgets(line, sizeof line, from); n++) {
		const char *at = past_blanks(line);

		if (*at != '[') {
			if (top && (past(at, "include") || past(at, "profile")))
				has = has == KOLO_HAS ? KOLO_HAS : KOLO_NOT_KNOWN;
			continue;
		}
		top = 0;
		if (!is_header(at, header))
			continue;
		if (strcmp(header, name) == 0)
			has = KOLO_HAS;
		if (used + strlen(header) + 3 < room)
			used += (size_t)sprintf(names + used, "%s%s", used ? ", " : "", header);
	}
	fclose(from);
	return has;
}
