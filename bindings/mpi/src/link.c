/* What the linker must see of libkolo.so.0; at run time the real library takes its place. */
int koloCommInitTable(void *newcomm, const void *table);
int koloCommInitTable(void *newcomm, const void *table)
{
    (void)newcomm;
    (void)table;
    return 3; /* koloInternalError */
}
