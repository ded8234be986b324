/* SPDX-License-Identifier: BSD-2-Clause */
/* A Soft-RoCE peer that does what it is told: queue pairs, RDMA writes and receives through libibverbs.
 *
 * Orders come one a line over TCP, and each gets one line in answer, "ok ..." or "error ...":
 *
 *   open LOCAL REMOTE MTU RNR_TIMER        a new QP between two addresses: ok QPN PSN R_KEY VA LENGTH
 *   connect QPN PSN TIMEOUT RETRIES [RNR_RETRIES]              bring it up to RTS; 7 unless given
 *   state                                  of the QP: ok ENUM_IBV_QP_STATE
 *   register OFFSET LENGTH                 open a part of our memory under a key of its own, one at a time: ok R_KEY
 *   put OFFSET HEX                         bytes into our memory
 *   get OFFSET LENGTH                      ok HEX
 *   fill OFFSET LENGTH                     random bytes into our memory
 *   sum OFFSET LENGTH                      ok SHA-256
 *   receive COUNT                          post receives
 *   post write|send|read OFFSET LENGTH VA R_KEY [IMMEDIATE]     of a write only
 *   poll COUNT MILLISECONDS                so many completions: ok STATUS:OPCODE:LENGTH:IMMEDIATE:RECEIVE ...
 *   counters                               Soft-RoCE's own: ok NAME=VALUE ...
 *   close                                  forget the QP
 *   quit
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <linux/if_alg.h>

#define MEMORY (24u << 20)
#define QUEUE 512
#define FIRST_PSN 0xfffff0 /* PSNs wrap soon */
#define COUNTERS "/sys/class/infiniband/rxe0/ports/1/hw_counters"

static struct ibv_context *context;
static struct ibv_pd *domain;
static struct ibv_mr *region, *part_of_it;
static uint8_t *memory;
static struct ibv_cq *queue;
static struct ibv_qp *pair;
static struct {
    union ibv_gid remote;
    int gid_index, mtu, rnr_timer;
} path;

static FILE *answers;
static int hash;

static void answer(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(answers, format, arguments);
    va_end(arguments);
    fputc('\n', answers);
    fflush(answers);
}

static void refuse(const char *what)
{
    answer("error %s: %s", what, strerror(errno));
}

static int gid_of(const char *address, union ibv_gid *gid)
{
    memset(gid, 0, sizeof *gid);
    if (inet_pton(AF_INET6, address, gid->raw) == 1)
        return 1;
    gid->raw[10] = gid->raw[11] = 0xff;
    return inet_pton(AF_INET, address, gid->raw + 12) == 1;
}

static int index_of(const union ibv_gid *wanted)
{
    union ibv_gid gid;
    for (int index = 0; ibv_query_gid(context, 1, index, &gid) == 0; index++)
        if (!memcmp(&gid, wanted, sizeof gid))
            return index;
    return -1;
}

static int mtu_of(int bytes)
{
    for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
        if (bytes == 128 << mtu)
            return mtu;
    return 0;
}

static void close_pair(void)
{
    if (pair)
        ibv_destroy_qp(pair);
    if (queue)
        ibv_destroy_cq(queue);
    pair = NULL;
    queue = NULL;
}

static void open_pair(const char *arguments)
{
    char local[64], remote[64];
    int bytes;
    union ibv_gid gid;
    if (sscanf(arguments, "%63s %63s %d %d", local, remote, &bytes, &path.rnr_timer) != 4 || !gid_of(local, &gid) ||
        !gid_of(remote, &path.remote) || !(path.mtu = mtu_of(bytes))) {
        answer("error open LOCAL REMOTE MTU RNR_TIMER");
        return;
    }
    if ((path.gid_index = index_of(&gid)) < 0) {
        answer("error %s is no address of Soft-RoCE's here", local);
        return;
    }
    close_pair();
    queue = ibv_create_cq(context, 2 * QUEUE, NULL, NULL, 0);
    if (!queue) {
        refuse("completion queue");
        return;
    }
    struct ibv_qp_init_attr wanted = {
        .send_cq = queue,
        .recv_cq = queue,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = QUEUE, .max_recv_wr = QUEUE, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    pair = ibv_create_qp(domain, &wanted);
    if (!pair || ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
        refuse("queue pair");
        return;
    }
    answer("ok %u %u %u %" PRIuPTR " %u", pair->qp_num, FIRST_PSN, region->rkey, (uintptr_t)memory, MEMORY);
}

static void connect_pair(const char *arguments)
{
    uint32_t qpn, psn;
    unsigned timeout, retries, rnr_retries = 7;
    if (!pair || sscanf(arguments, "%u %u %u %u %u", &qpn, &psn, &timeout, &retries, &rnr_retries) < 4) {
        answer("error connect QPN PSN TIMEOUT RETRIES [RNR_RETRIES], after open");
        return;
    }
    struct ibv_qp_attr ready = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = path.mtu,
        .dest_qp_num = qpn,
        .rq_psn = psn,
        .min_rnr_timer = path.rnr_timer,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = path.remote, .sgid_index = path.gid_index, .hop_limit = 64}},
    };
    if (ibv_modify_qp(pair, &ready, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
        refuse("RTR");
        return;
    }
    struct ibv_qp_attr send = {
        .qp_state = IBV_QPS_RTS,
        .timeout = timeout,
        .retry_cnt = retries,
        .rnr_retry = rnr_retries,
        .sq_psn = FIRST_PSN,
        .max_rd_atomic = 1,
    };
    if (ibv_modify_qp(pair, &send, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC)) {
        refuse("RTS");
        return;
    }
    answer("ok");
}

static int range(const char *arguments, uint32_t *offset, uint32_t *length)
{
    if (sscanf(arguments, "%u %u", offset, length) == 2 && *offset <= MEMORY && *length <= MEMORY - *offset)
        return 1;
    answer("error OFFSET LENGTH, within %u bytes", MEMORY);
    return 0;
}

static void state(void)
{
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr initial;
    if (!pair || ibv_query_qp(pair, &attributes, IBV_QP_STATE, &initial))
        refuse("state");
    else
        answer("ok %d", attributes.qp_state);
}

static void register_part(const char *arguments)
{
    uint32_t offset, length;
    if (!range(arguments, &offset, &length))
        return;
    if (part_of_it)
        ibv_dereg_mr(part_of_it);
    part_of_it = ibv_reg_mr(domain, memory + offset, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (part_of_it)
        answer("ok %u", part_of_it->rkey);
    else
        refuse("register");
}

static void put(const char *arguments)
{
    char *hex;
    uint32_t offset = strtoul(arguments, &hex, 10);
    unsigned byte;
    for (hex += *hex == ' '; offset < MEMORY && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        memory[offset++] = byte;
    if (*hex)
        answer("error put OFFSET HEX");
    else
        answer("ok");
}

static void get(uint32_t offset, uint32_t length)
{
    fputs("ok ", answers);
    while (length--)
        fprintf(answers, "%02x", memory[offset++]);
    answer("");
}

/* The kernel knows SHA-256: it is not this program's own sum that is compared. */
static void sum(uint32_t offset, uint32_t length)
{
    uint8_t digest[32];
    if (send(hash, memory + offset, length, 0) != length || read(hash, digest, sizeof digest) != sizeof digest) {
        refuse("SHA-256");
        return;
    }
    fputs("ok ", answers);
    for (size_t at = 0; at < sizeof digest; at++)
        fprintf(answers, "%02x", digest[at]);
    answer("");
}

static void fill(const char *arguments)
{
    uint32_t offset, length;
    if (!range(arguments, &offset, &length))
        return;
    for (uint32_t done = 0; done < length;) {
        ssize_t got = getrandom(memory + offset + done, length - done, 0);
        if (got < 0) {
            refuse("getrandom");
            return;
        }
        done += got;
    }
    answer("ok");
}

static void post_receives(const char *arguments)
{
    int count = atoi(arguments);
    struct ibv_recv_wr work = {.wr_id = 1, .num_sge = 0}, *bad;
    while (count-- > 0)
        if (!pair || (errno = ibv_post_recv(pair, &work, &bad))) {
            refuse("receive");
            return;
        }
    answer("ok");
}

static void post_work(const char *arguments)
{
    uint32_t offset, length, rkey, immediate;
    uint64_t va;
    char kind[8];
    int given = sscanf(arguments, "%7s %u %u %" SCNu64 " %u %u", kind, &offset, &length, &va, &rkey, &immediate);
    if (given < 5 || offset > MEMORY || length > MEMORY - offset) {
        answer("error post write|send|read OFFSET LENGTH VA R_KEY [IMMEDIATE]");
        return;
    }
    struct ibv_sge part = {.addr = (uintptr_t)memory + offset, .length = length, .lkey = region->lkey};
    struct ibv_send_wr work = {
        .sg_list = &part,
        .num_sge = length > 0,
        .opcode = *kind == 's'   ? IBV_WR_SEND
                  : *kind == 'r' ? IBV_WR_RDMA_READ
                  : given == 6   ? IBV_WR_RDMA_WRITE_WITH_IMM
                                 : IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = htonl(given == 6 ? immediate : 0),
        .wr.rdma = {.remote_addr = va, .rkey = rkey},
    };
    struct ibv_send_wr *bad;
    if (!pair || (errno = ibv_post_send(pair, &work, &bad))) {
        refuse("post");
        return;
    }
    answer("ok");
}

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static void poll_queue(const char *arguments)
{
    static char line[QUEUE * 64];
    int count, patience, length = 0;
    struct ibv_wc done;
    if (!queue || sscanf(arguments, "%d %d", &count, &patience) != 2 || count > QUEUE) {
        answer("error poll COUNT MILLISECONDS, at most %d, after open", QUEUE);
        return;
    }
    line[0] = 0;
    for (int64_t until = milliseconds() + patience; count > 0 && milliseconds() < until;) {
        int got = ibv_poll_cq(queue, 1, &done);
        if (got < 0) {
            refuse("poll");
            return;
        }
        if (!got) {
            usleep(200);
            continue;
        }
        count--;
        length += sprintf(line + length, " %d:%d:%u:%u:%d", done.status, done.opcode, done.byte_len,
                          done.wc_flags & IBV_WC_WITH_IMM ? ntohl(done.imm_data) : 0, (int)done.wr_id);
    }
    answer("ok%s", line);
}

static void counters(void)
{
    char name[512], line[4096] = "";
    int length = 0;
    struct dirent *entry;
    DIR *folder = opendir(COUNTERS);
    while (folder && (entry = readdir(folder))) {
        unsigned long long value;
        snprintf(name, sizeof name, COUNTERS "/%s", entry->d_name);
        FILE *file = fopen(name, "r");
        if (!file)
            continue;
        if (entry->d_name[0] != '.' && fscanf(file, "%llu", &value) == 1)
            length += snprintf(line + length, sizeof line - length, " %s=%llu", entry->d_name, value);
        fclose(file);
    }
    if (folder)
        closedir(folder);
    answer("ok%s", line);
}

static int order(const char *line)
{
    uint32_t offset, length;
    const char *arguments = strchr(line, ' ');
    arguments = arguments ? arguments + 1 : "";
    if (!strncmp(line, "open ", 5))
        open_pair(arguments);
    else if (!strncmp(line, "connect ", 8))
        connect_pair(arguments);
    else if (!strncmp(line, "fill ", 5))
        fill(arguments);
    else if (!strncmp(line, "sum ", 4)) {
        if (range(arguments, &offset, &length))
            sum(offset, length);
    } else if (!strncmp(line, "get ", 4)) {
        if (range(arguments, &offset, &length))
            get(offset, length);
    } else if (!strncmp(line, "put ", 4))
        put(arguments);
    else if (!strncmp(line, "register ", 9))
        register_part(arguments);
    else if (!strncmp(line, "state", 5))
        state();
    else if (!strncmp(line, "receive ", 8))
        post_receives(arguments);
    else if (!strncmp(line, "post ", 5))
        post_work(arguments);
    else if (!strncmp(line, "poll ", 5))
        poll_queue(arguments);
    else if (!strncmp(line, "counters", 8))
        counters();
    else if (!strncmp(line, "close", 5)) {
        close_pair();
        answer("ok");
    } else if (!strncmp(line, "quit", 4)) {
        answer("ok");
        return 0;
    } else
        answer("error no such order: %s", line);
    return 1;
}

static int die(const char *what)
{
    perror(what);
    return 1;
}

int main(int count, char **words)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct sockaddr_alg sha256 = {.salg_family = AF_ALG, .salg_type = "hash", .salg_name = "sha256"};
    static char line[1 << 17];
    int on = 1, devices;
    if (count != 3 || inet_pton(AF_INET, words[1], &address.sin_addr) != 1) {
        fprintf(stderr, "peer ADDRESS PORT\n");
        return 2;
    }
    address.sin_port = htons(atoi(words[2]));
    struct ibv_device **list = ibv_get_device_list(&devices);
    if (!list || !devices)
        return die("no RDMA device");
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!(context = ibv_open_device(list[0])) || !(domain = ibv_alloc_pd(context)) || memory == MAP_FAILED ||
        !(region = ibv_reg_mr(domain, memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)))
        return die("RDMA device");
    int kind = socket(AF_ALG, SOCK_SEQPACKET, 0);
    if (bind(kind, (struct sockaddr *)&sha256, sizeof sha256) || (hash = accept(kind, NULL, NULL)) < 0)
        return die("SHA-256");
    int link = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(link, (struct sockaddr *)&address, sizeof address))
        return die("connect");
    FILE *orders = fdopen(link, "r");
    answers = fdopen(dup(link), "w");
    while (fgets(line, sizeof line, orders)) {
        line[strcspn(line, "\n")] = 0;
        if (!order(line))
            return 0;
    }
    return die("orders");
}
