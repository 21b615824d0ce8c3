/*
 * What plugins write to the log, as text.
 *
 * The log function of the plugin interface takes its arguments as printf does, which a function in
 * Rust cannot. So this one formats the line and hands it on.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* A longer line is cut. */
#define LINE_BYTES 1024

typedef int (*wanted_fn)(int level);
typedef void (*sink_fn)(int level, const char *file, int line, const char *text);

static wanted_fn wanted;
static sink_fn sink;

/* Called once, before any plugin can call the other one. */
void kolo_net_plugin_log_to(wanted_fn ask, sink_fn take)
{
    __atomic_store_n(&sink, take, __ATOMIC_SEQ_CST);
    __atomic_store_n(&wanted, ask, __ATOMIC_SEQ_CST);
}

void kolo_net_plugin_log(int level, unsigned long parts, const char *file, int line,
                         const char *format, ...)
{
    char text[LINE_BYTES];
    va_list arguments;
    wanted_fn ask = __atomic_load_n(&wanted, __ATOMIC_SEQ_CST);
    (void)parts;
    if (ask == NULL || format == NULL || !ask(level)) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    __atomic_load_n(&sink, __ATOMIC_SEQ_CST)(level, file, line, text);
}
