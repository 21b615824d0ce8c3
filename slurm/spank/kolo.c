/* SPANK plugin: srun, sbatch and salloc learn --kolo, --kolo-debug and --kolo-report.
 *
 * In plugstack.conf:
 *
 *     optional kolo.so [site=/etc/kolo/kolo.toml] [profile=NAME] [needs=/opt/kolo/lib/libkolo.so.0]
 *
 * site=FILE names the settings in which profiles say what they preload; profile=NAME is what
 * `--kolo` means without a name; where the file of needs=FILE is not, a node has no kolo, and a
 * step that was started with one of the options hears it, once a node.
 *
 * What the options say becomes variables of the tasks (KOLO_PROFILE, KOLO_DEBUG, KOLO_REPORT), and
 * kolo does the rest. Slurm hands the options on by itself: from sbatch to the srun of its script,
 * and from srun to every node. The plugin asks nobody, keeps nothing, and knows no secret.
 *
 * It never fails a job: whatever goes wrong here, the job runs as it would without the plugin. What
 * a user should know is one line, printed where the command was typed and not on every node. A
 * profile that the site does not have, and a library of a profile that cannot be loaded, are told
 * by the first node of a step, as programs that know nothing of kolo would not. (To one that knows
 * kolo such a profile is an error.) */
#include "site.h"

#include <fcntl.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(kolo, 1)

enum { MOST_PATH = 4096, MOST_LIST = 16384 };
enum { WITH_PROFILE, WITH_DEBUG, WITH_REPORT };

#define OF_NAMES "the name of a profile has letters, digits, '.', '_' and '-'"
/* The name that chooses none. */
#define NO_PROFILE "none"

static const char *site = "/etc/kolo/kolo.toml";
static const char *needs;
static char usual[KOLO_MOST_NAME + 1];
static char profile[KOLO_MOST_NAME + 1];
static char level[16];
static int reports, asked;

/* Notes what one option says. Called where the command was typed, and again on every node. */
static int note(int which, const char *given, int remote)
{
	static const char *const LEVELS[] = { "none", "warn", "version", "info", "trace" };

	asked = 1;
	switch (which) {
	case WITH_REPORT:
		reports = 1;
		break;
	case WITH_DEBUG:
		for (size_t i = 0; given && i < sizeof LEVELS / sizeof *LEVELS; i++)
			if (strcmp(given, LEVELS[i]) == 0)
				snprintf(level, sizeof level, "%s", given);
		if (!*level && !remote)
			slurm_spank_log("kolo: --kolo-debug=%.32s is ignored: use none, warn, "
					"version, info or trace", given ? given : "");
		break;
	case WITH_PROFILE:
		if (!given || !*given)
			given = usual;
		if (!*given)
			break;
		if (kolo_is_name(given))
			snprintf(profile, sizeof profile, "%s", given);
		else if (!remote)
			slurm_spank_log("kolo: --kolo=%.32s is ignored: " OF_NAMES, given);
		break;
	}
	return ESPANK_SUCCESS;
}

static struct spank_option options[] = {
	{ "kolo", "PROFILE", "kolo: take the settings of a profile of the site", 2,
	  WITH_PROFILE, note },
	{ "kolo-debug", "LEVEL", "kolo: say more (none, warn, version, info, trace)", 1,
	  WITH_DEBUG, note },
	{ "kolo-report", NULL, "kolo: rank 0 tells at its end what the ranks called", 0,
	  WITH_REPORT, note },
};

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	spank_context_t where = spank_context();

	if (where != S_CTX_LOCAL && where != S_CTX_REMOTE && where != S_CTX_ALLOCATOR)
		return ESPANK_SUCCESS;
	for (int i = 0; i < ac; i++) {
		/* The arguments live as long as the plugin. */
		if (strncmp(av[i], "site=", 5) == 0)
			site = av[i] + 5;
		else if (strncmp(av[i], "needs=", 6) == 0)
			needs = av[i] + 6;
		else if (strncmp(av[i], "profile=", 8) == 0 && kolo_is_name(av[i] + 8))
			snprintf(usual, sizeof usual, "%s", av[i] + 8);
		else if (where != S_CTX_REMOTE)
			slurm_spank_log("kolo: `%.64s` in plugstack.conf is ignored: site=FILE, "
					"profile=NAME and needs=FILE are known", av[i]);
	}
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		/* A name that another plugin has taken first: this one does without. */
		(void)spank_option_register(sp, &options[i]);
	return ESPANK_SUCCESS;
}

/* The shell of salloc is no task, so what it starts with mpirun gets its variables here. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	(void)sp, (void)ac, (void)av;
	if (spank_context() != S_CTX_ALLOCATOR)
		return ESPANK_SUCCESS;
	if (*profile)
		setenv("KOLO_PROFILE", profile, 1);
	if (*level)
		setenv("KOLO_DEBUG", level, 1);
	if (reports)
		setenv("KOLO_REPORT", "1", 1);
	return ESPANK_SUCCESS;
}

static int has(spank_t sp, const char *variable)
{
	char value[2];
	spank_err_t got = spank_getenv(sp, variable, value, sizeof value);

	return (got == ESPANK_SUCCESS && *value) || got == ESPANK_NOSPACE;
}

/* Whether the task runs in a container, or is the program that makes one: the paths of the site
 * mean something else in there, and so may the C library. */
static int in_container(spank_t sp)
{
	static const char *const RUNNERS[] = { "apptainer", "singularity", "podman", "docker",
					       "enroot", "ch-run", "shifter", "sarus", "runc" };
	static const char *const SIGNS[] = { "SLURM_CONTAINER", "APPTAINER_CONTAINER",
					     "SINGULARITY_CONTAINER",
					     "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image" };
	char **args = NULL;
	int count = 0;

	for (size_t i = 0; i < sizeof SIGNS / sizeof *SIGNS; i++)
		if (has(sp, SIGNS[i]))
			return 1;
	if (spank_get_item(sp, S_JOB_ARGV, &count, &args) != ESPANK_SUCCESS || count < 1 || !args[0])
		return 0;
	const char *slash = strrchr(args[0], '/');
	const char *program = slash ? slash + 1 : args[0];

	for (size_t i = 0; i < sizeof RUNNERS / sizeof *RUNNERS; i++)
		if (strcmp(program, RUNNERS[i]) == 0)
			return 1;
	return 0;
}

/* Whether a list for ld.so, divided by colons or blanks, names this path. */
static int names(const char *list, const char *path)
{
	size_t n = strlen(path);

	for (const char *at = list; (at = strstr(at, path)); at++)
		if ((at == list || strchr(": ", at[-1])) && strchr(": ", at[n]))
			return 1;
	return 0;
}

/* Whether the job's user can load this file, in a process that has the rights of that user. */
static int can_load(const char *path)
{
	struct stat about;

	/* Before a task begins, only the effective user is the job's. */
	return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 && stat(path, &about) == 0 &&
	       S_ISREG(about.st_mode);
}

/* Puts the readable ones of these paths, a colon behind each, before what the user preloads. A path
 * that is there already, as in a step that one of its tasks starts, is not put there twice. */
static void preload(spank_t sp, char *paths)
{
	char list[MOST_LIST] = "", before[MOST_LIST] = "";
	size_t used = 0;
	char *rest = NULL;

	if (spank_getenv(sp, "LD_PRELOAD", before, sizeof before) == ESPANK_NOSPACE)
		return;
	for (char *path = strtok_r(paths, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
		if (names(before, path) || !can_load(path))
			continue;
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ":" : "", path);
	}
	if (used == 0 || used + strlen(before) + 2 > sizeof list)
		return;
	if (*before)
		snprintf(list + used, sizeof list - used, ":%s", before);
	(void)spank_setenv(sp, "LD_PRELOAD", list, 1);
}

/* Whether this is the script of a batch job. Its shell hands on what it has, also into containers,
 * and its steps come by here themselves. */
static int is_batch_script(spank_t sp)
{
	uint32_t step = 0;

	return spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
	       step == SLURM_BATCH_SCRIPT;
}

/* The profile that was typed, or else the one of the shell's variable, which may be no name. */
static int choose(spank_t sp, char *into, int room)
{
	if (*profile)
		return snprintf(into, (size_t)room, "%s", profile) < room;
	return spank_getenv(sp, "KOLO_PROFILE", into, room) == ESPANK_SUCCESS && *into;
}

/* Tells of a profile that is not there, and of the first of its libraries that cannot be loaded. */
static void look_at_profile(spank_t sp, const char *host)
{
	char chosen[MOST_PATH] = "", known[512], paths[MOST_PATH], *rest = NULL;

	if (!choose(sp, chosen, sizeof chosen) || strcmp(chosen, NO_PROFILE) == 0)
		return;
	if (!kolo_is_name(chosen)) {
		slurm_spank_log("kolo: KOLO_PROFILE=%.32s is ignored: " OF_NAMES, chosen);
		return;
	}
	switch (kolo_has_profile(site, chosen, known, sizeof known)) {
	case KOLO_CANNOT_READ:
		slurm_spank_log("kolo: %s cannot be read on %s, so the profile `%s` preloads "
				"nothing", site, host, chosen);
		return;
	case KOLO_HAS_NOT:
		slurm_spank_log("kolo: there is no profile `%s` in %s of %s, so nothing is preloaded; "
				"profiles there: %s", chosen, site, host, *known ? known : "none");
		return;
	case KOLO_NOT_KNOWN:
	case KOLO_HAS:
		break;
	}
	if (in_container(sp) || kolo_preloads(site, chosen, paths, sizeof paths) == 0)
		return;
	for (char *path = strtok_r(paths, ":", &rest); path; path = strtok_r(NULL, ":", &rest))
		if (!can_load(path)) {
			slurm_spank_log("kolo: the profile `%s` preloads %s, which is no file on %s "
					"that you can read: the step runs without it", chosen, path, host);
			return;
		}
}

/* Once a node, before its tasks begin. */
int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
	char host[256] = "";
	uint32_t node = 1;

	(void)ac, (void)av;
	gethostname(host, sizeof host - 1);
	if (asked && needs && access(needs, F_OK) != 0)
		slurm_spank_log("kolo: there is no %s on %s: install kolo there, or leave the node out "
				"(--exclude=%s)", needs, host, host);
	/* All nodes of a step have the same words, and one of them tells. */
	if (spank_get_item(sp, S_JOB_NODEID, &node) == ESPANK_SUCCESS && node == 0 &&
	    !is_batch_script(sp))
		look_at_profile(sp, host);
	return ESPANK_SUCCESS;
}

/* As the job's user, in the process that becomes the task. */
int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	char paths[MOST_PATH], chosen[KOLO_MOST_NAME + 1] = "";

	(void)ac, (void)av;
	/* What was typed for this step is meant more than a variable of the shell. */
	if (*level)
		(void)spank_setenv(sp, "KOLO_DEBUG", level, 1);
	if (reports)
		(void)spank_setenv(sp, "KOLO_REPORT", "1", 1);
	if (*profile)
		(void)spank_setenv(sp, "KOLO_PROFILE", profile, 1);
	/* A variable chooses a profile as well, and then all of it. */
	if (spank_getenv(sp, "KOLO_PROFILE", chosen, sizeof chosen) != ESPANK_SUCCESS ||
	    !kolo_is_name(chosen) || is_batch_script(sp))
		return ESPANK_SUCCESS;
	if (!in_container(sp) && kolo_preloads(site, chosen, paths, sizeof paths) > 0)
		preload(sp, paths);
	return ESPANK_SUCCESS;
}
