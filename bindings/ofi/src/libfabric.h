/* The calls of libfabric that kolo makes, as functions: its headers have them inline. What is laid
 * out here is laid out the same in libfabric.rs. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>
#include <stddef.h>
#include <stdint.h>

/* Facts about a way that libfabric offers. The strings and the address live as long as it. */
struct kolo_ofi_facts {
    const char *provider;
    const char *fabric;
    const char *domain;
    const void *address;
    size_t address_bytes;
    uint64_t max_message;
    uint64_t tag_format;
    uint64_t speed; /* bits a second, 0: not told */
    uint32_t is_internet; /* the address is one of IPv4 or IPv6 */
    uint32_t on_pci;
    uint16_t pci_domain;
    uint8_t pci_bus;
    uint8_t pci_device;
    uint8_t pci_function;
};

/* An open endpoint, with all that belongs to it. */
struct kolo_ofi_endpoint {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *completions;
    struct fid_ep *endpoint;
    int memory_mode;
    uint64_t next_key;
};

#define KOLO_OFI_WORDS 160

/* An operation that has ended. */
struct kolo_ofi_done {
    void *context;
    uint64_t bytes;
    int32_t error; /* 0, or a number of libfabric */
    char words[KOLO_OFI_WORDS];
};

int kolo_ofi_find(const char *provider, struct fi_info **list);
struct fi_info *kolo_ofi_next(const struct fi_info *info);
struct fi_info *kolo_ofi_copy(const struct fi_info *info);
void kolo_ofi_free(struct fi_info *info);
void kolo_ofi_tell(const struct fi_info *info, struct kolo_ofi_facts *facts);
const char *kolo_ofi_words(int error);
int kolo_ofi_open(struct fi_info *info, struct kolo_ofi_endpoint **out, const char **step);
void kolo_ofi_shut(struct kolo_ofi_endpoint *endpoint);
void kolo_ofi_close(struct kolo_ofi_endpoint *endpoint);
int kolo_ofi_name(struct kolo_ofi_endpoint *endpoint, void *name, size_t *bytes);
int kolo_ofi_insert(struct kolo_ofi_endpoint *endpoint, const void *name, uint64_t *address);
int kolo_ofi_register(struct kolo_ofi_endpoint *endpoint, void *data, size_t bytes,
                      struct fid_mr **region, void **description);
void kolo_ofi_deregister(struct fid_mr *region);
ptrdiff_t kolo_ofi_send(struct kolo_ofi_endpoint *endpoint, const void *data, size_t bytes,
                        void *description, uint64_t to, uint64_t tag, void *context);
ptrdiff_t kolo_ofi_receive(struct kolo_ofi_endpoint *endpoint, void *data, size_t bytes,
                           void *description, uint64_t tag, void *context);
void kolo_ofi_cancel(struct kolo_ofi_endpoint *endpoint, void *context);
ptrdiff_t kolo_ofi_poll(struct kolo_ofi_endpoint *endpoint, struct kolo_ofi_done *done,
                        size_t room);
