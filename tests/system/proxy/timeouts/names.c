/* Preloaded into nginx: host names that end with .test are 127.0.0.1. The file NAMES_FILE (two longs)
 * says how many ms each look-up takes, and whether it then fails, as if no name server answered. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile long *state;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("NAMES_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file >= 0)
        state = mmap(NULL, 2 * sizeof(long), PROT_READ, MAP_SHARED, file, 0);
}

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict result)
{
    int (*original)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    size_t length = name ? strlen(name) : 0;

    *(void **)&original = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!state || length < 5 || strcmp(name + length - 5, ".test") != 0)
        return original(name, service, hints, result);
    usleep(state[0] * 1000);
    return state[1] ? EAI_AGAIN : original("127.0.0.1", service, hints, result);
}
