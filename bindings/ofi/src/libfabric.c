/* The calls of libfabric.h. */
#include "libfabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Old enough for the libraries of sites, new enough for memory modes one by one. */
#define VERSION FI_VERSION(1, 9)
#define BATCH 16

int kolo_ofi_find(const char *provider, struct fi_info **list)
{
    struct fi_info *hints = fi_allocinfo();
    int code;

    if (!hints)
        return -FI_ENOMEM;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    /* All calls to a domain are made under one lock. */
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    if (provider && !(hints->fabric_attr->prov_name = strdup(provider))) {
        fi_freeinfo(hints);
        return -FI_ENOMEM;
    }
    code = fi_getinfo(VERSION, NULL, NULL, 0, hints, list);
    fi_freeinfo(hints);
    return code;
}

struct fi_info *kolo_ofi_next(const struct fi_info *info)
{
    return info->next;
}

struct fi_info *kolo_ofi_copy(const struct fi_info *info)
{
    return fi_dupinfo(info);
}

void kolo_ofi_free(struct fi_info *info)
{
    fi_freeinfo(info);
}

void kolo_ofi_tell(const struct fi_info *info, struct kolo_ofi_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    facts->provider = info->fabric_attr->prov_name;
    facts->fabric = info->fabric_attr->name;
    facts->domain = info->domain_attr->name;
    facts->address = info->src_addr;
    facts->address_bytes = info->src_addr ? info->src_addrlen : 0;
    facts->max_message = info->ep_attr->max_msg_size;
    facts->tag_format = info->ep_attr->mem_tag_format;
    facts->is_internet = info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
                         info->addr_format == FI_SOCKADDR_IN6;
    if (info->nic && info->nic->link_attr)
        facts->speed = info->nic->link_attr->speed;
    if (info->nic && info->nic->bus_attr && info->nic->bus_attr->bus_type == FI_BUS_PCI) {
        facts->on_pci = 1;
        facts->pci_domain = info->nic->bus_attr->attr.pci.domain_id;
        facts->pci_bus = info->nic->bus_attr->attr.pci.bus_id;
        facts->pci_device = info->nic->bus_attr->attr.pci.device_id;
        facts->pci_function = info->nic->bus_attr->attr.pci.function_id;
    }
}

const char *kolo_ofi_words(int error)
{
    return fi_strerror(error < 0 ? -error : error);
}

static int open_all(struct fi_info *info, struct kolo_ofi_endpoint *open, const char **step)
{
    struct fi_av_attr addresses = {.type = info->domain_attr->av_type};
    struct fi_cq_attr completions = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    int code;

    open->memory_mode = info->domain_attr->mr_mode;
    completions.size = info->tx_attr->size + info->rx_attr->size;
    *step = "its fabric";
    if ((code = fi_fabric(info->fabric_attr, &open->fabric, NULL)))
        return code;
    *step = "its domain";
    if ((code = fi_domain(open->fabric, info, &open->domain, NULL)))
        return code;
    *step = "a table of addresses";
    if ((code = fi_av_open(open->domain, &addresses, &open->addresses, NULL)))
        return code;
    *step = "a completion queue";
    if ((code = fi_cq_open(open->domain, &completions, &open->completions, NULL)))
        return code;
    *step = "an endpoint";
    if ((code = fi_endpoint(open->domain, info, &open->endpoint, NULL)))
        return code;
    if ((code = fi_ep_bind(open->endpoint, &open->addresses->fid, 0)))
        return code;
    if ((code = fi_ep_bind(open->endpoint, &open->completions->fid, FI_TRANSMIT | FI_RECV)))
        return code;
    return fi_enable(open->endpoint);
}

int kolo_ofi_open(struct fi_info *info, struct kolo_ofi_endpoint **out, const char **step)
{
    struct kolo_ofi_endpoint *open = calloc(1, sizeof *open);
    int code;

    *step = "memory";
    if (!open)
        return -FI_ENOMEM;
    if ((code = open_all(info, open, step))) {
        kolo_ofi_close(open);
        return code;
    }
    *out = open;
    return 0;
}

void kolo_ofi_shut(struct kolo_ofi_endpoint *open)
{
    if (open->endpoint)
        fi_close(&open->endpoint->fid);
    open->endpoint = NULL;
}

void kolo_ofi_close(struct kolo_ofi_endpoint *open)
{
    kolo_ofi_shut(open);
    if (open->addresses)
        fi_close(&open->addresses->fid);
    if (open->completions)
        fi_close(&open->completions->fid);
    if (open->domain)
        fi_close(&open->domain->fid);
    if (open->fabric)
        fi_close(&open->fabric->fid);
    free(open);
}

int kolo_ofi_name(struct kolo_ofi_endpoint *open, void *name, size_t *bytes)
{
    return fi_getname(&open->endpoint->fid, name, bytes);
}

int kolo_ofi_insert(struct kolo_ofi_endpoint *open, const void *name, uint64_t *address)
{
    fi_addr_t out = FI_ADDR_NOTAVAIL;
    int count = fi_av_insert(open->addresses, name, 1, &out, 0, NULL);

    *address = out;
    if (count == 1 && out != FI_ADDR_NOTAVAIL)
        return 0;
    return count < 0 ? count : -FI_EINVAL;
}

int kolo_ofi_register(struct kolo_ofi_endpoint *open, void *data, size_t bytes,
                      struct fid_mr **region, void **description)
{
    uint64_t key = open->next_key++;
    int code;

    *region = NULL;
    *description = NULL;
    if (!(open->memory_mode & FI_MR_LOCAL))
        return 0;
    code = fi_mr_reg(open->domain, data, bytes, FI_SEND | FI_RECV, 0, key, 0, region, NULL);
    if (code)
        return code;
    if (open->memory_mode & FI_MR_ENDPOINT) {
        code = fi_mr_bind(*region, &open->endpoint->fid, 0);
        if (!code)
            code = fi_mr_enable(*region);
        if (code) {
            fi_close(&(*region)->fid);
            *region = NULL;
            return code;
        }
    }
    *description = fi_mr_desc(*region);
    return 0;
}

void kolo_ofi_deregister(struct fid_mr *region)
{
    fi_close(&region->fid);
}

ptrdiff_t kolo_ofi_send(struct kolo_ofi_endpoint *open, const void *data, size_t bytes,
                        void *description, uint64_t to, uint64_t tag, void *context)
{
    return fi_tsend(open->endpoint, data, bytes, description, to, tag, context);
}

ptrdiff_t kolo_ofi_receive(struct kolo_ofi_endpoint *open, void *data, size_t bytes,
                           void *description, uint64_t tag, void *context)
{
    return fi_trecv(open->endpoint, data, bytes, description, FI_ADDR_UNSPEC, tag, 0, context);
}

void kolo_ofi_cancel(struct kolo_ofi_endpoint *open, void *context)
{
    fi_cancel(&open->endpoint->fid, context);
}

static ptrdiff_t poll_error(struct kolo_ofi_endpoint *open, struct kolo_ofi_done *done)
{
    struct fi_cq_err_entry entry = {0};
    ptrdiff_t count = fi_cq_readerr(open->completions, &entry, 0);
    const char *words;

    if (count != 1)
        return count == -FI_EAGAIN ? 0 : count;
    done->context = entry.op_context;
    done->bytes = entry.len;
    done->error = entry.err ? entry.err : FI_EOTHER;
    words = fi_cq_strerror(open->completions, entry.prov_errno, entry.err_data, NULL, 0);
    snprintf(done->words, sizeof done->words, "%s", words ? words : "");
    return 1;
}

ptrdiff_t kolo_ofi_poll(struct kolo_ofi_endpoint *open, struct kolo_ofi_done *done, size_t room)
{
    struct fi_cq_tagged_entry entries[BATCH];
    ptrdiff_t count, i;

    count = fi_cq_read(open->completions, entries, room < BATCH ? room : BATCH);
    if (count == -FI_EAGAIN)
        return 0;
    if (count == -FI_EAVAIL)
        return poll_error(open, done);
    for (i = 0; i < count; i++) {
        done[i].context = entries[i].op_context;
        done[i].bytes = entries[i].len;
        done[i].error = 0;
    }
    return count;
}
