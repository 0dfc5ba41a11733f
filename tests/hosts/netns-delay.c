// Two-way Ethernet relay that holds every frame for a fixed time; used by netns-hosts.sh.
// Usage: netns-delay IF_A IF_B MICROSECONDS
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
enum { SLOTS = 4096, MAXF = 66000 + 64 };
struct slot {
  long long due;
  int len;
  unsigned char* data;
};
struct way {
  int in, out;
  long long delay;
};
static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static int open_if(const char* name) {
  int s = socket(AF_PACKET, SOCK_RAW, 0), one = 1, big = 32 << 20;
  setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one);
  setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
  setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
  setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof big);
  struct sockaddr_ll a = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
  struct packet_mreq m = {.mr_ifindex = a.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
  setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &m, sizeof m);
  if (!a.sll_ifindex || bind(s, (void*)&a, sizeof a)) {
    perror(name);
    exit(1);
  }
  return s;
}
static void* run(void* p) {
  struct way w = *(struct way*)p;
  struct slot* q = calloc(SLOTS, sizeof *q);
  unsigned head = 0, tail = 0;
  prctl(PR_SET_TIMERSLACK, 1000UL);
  for (;;) {
    struct timespec ts, *tp = NULL;
    if (head != tail) {
      long long left = q[tail % SLOTS].due - now();
      if (left < 0) left = 0;
      ts.tv_sec = left / 1000000000LL;
      ts.tv_nsec = left % 1000000000LL;
      tp = &ts;
    }
    struct pollfd f = {.fd = w.in, .events = head - tail < SLOTS ? POLLIN : 0};
    ppoll(&f, 1, tp, NULL);
    while (head - tail < SLOTS) {
      struct slot* s = &q[head % SLOTS];
      if (!s->data) s->data = malloc(MAXF);
      ssize_t n = recv(w.in, s->data, MAXF, MSG_DONTWAIT);
      if (n <= 0) break;
      s->len = (int)n;
      s->due = now() + w.delay;
      head++;
    }
    while (head != tail && q[tail % SLOTS].due <= now()) {
      struct slot* s = &q[tail % SLOTS];
      while (send(w.out, s->data, s->len, 0) < 0 && (errno == ENOBUFS || errno == EAGAIN)) usleep(20);
      tail++;
    }
  }
  return NULL;
}
int main(int c, char** v) {
  if (c != 4) {
    fprintf(stderr, "usage: netns-delay IF_A IF_B MICROSECONDS\n");
    return 2;
  }
  int a = open_if(v[1]), b = open_if(v[2]);
  struct way ab = {a, b, atof(v[3]) * 1000}, ba = {b, a, atof(v[3]) * 1000};
  pthread_t t;
  pthread_create(&t, NULL, run, &ab);
  run(&ba);
  return 0;
}
