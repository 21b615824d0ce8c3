/* A library for management that knows what FAKE_NVML says: `PCI UUID,PCI UUID,...`. Each device has
 * a link to its neighbour (0 to 1, 2 to 3), one that is off, and two to a switch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_ARGUMENT = 2, NOT_FOUND = 6 };

struct pci {
    char short_name[16];
    unsigned domain, bus, device, id, subsystem;
    char name[32];
};

static char devices[32][2][96];
static unsigned count;

int nvmlInit_v2(void)
{
    const char *text = getenv("FAKE_NVML");
    for (count = 0; text && *text && count < 32; count++) {
        if (sscanf(text, "%95[^ ] %95[^,]", devices[count][0], devices[count][1]) != 2)
            return NOT_FOUND;
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
    return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
    snprintf(text, bytes, "550.54.15");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *number)
{
    *number = count;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **device)
{
    *device = devices[at];
    return at < count ? 0 : INVALID_ARGUMENT;
}

static void fill(struct pci *pci, const char *name, unsigned id)
{
    memset(pci, 0, sizeof *pci);
    pci->id = id;
    snprintf(pci->name, sizeof pci->name, "0000%s", name);
}

int nvmlDeviceGetPciInfo_v3(char (*device)[96], struct pci *pci)
{
    fill(pci, device[0], 0x233010de);
    return 0;
}

int nvmlDeviceGetUUID(char (*device)[96], char *text, unsigned bytes)
{
    snprintf(text, bytes, "%s", device[1]);
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *on)
{
    (void)device;
    *on = link != 1;
    return link < 4 ? 0 : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version)
{
    (void)device;
    *version = 3;
    return link < 4 ? 0 : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(char (*device)[96], unsigned link, struct pci *pci)
{
    unsigned at = (unsigned)(device - devices[0]) / 2;
    if (link == 0)
        fill(pci, devices[at ^ 1][0], 0x233010de);
    else
        fill(pci, "0000:C4:00.0", 0x22a310de);
    return 0;
}
