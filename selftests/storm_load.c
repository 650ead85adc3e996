// SPDX-License-Identifier: GPL-2.0
/*
 * 16 processes which share domains of all policies, and are killed at random moments
 * and started anew.
 *
 *   storm_load [-k KILLS] [-s SEED] [-t SECONDS] [-r]
 *
 * Ends after so many kills, with 0 if all went as it should, and says what was done.
 * With -r the device may come and go meanwhile: for a number on stdin it says "flowing"
 * when so many more messages have been received, and it ends with stdin. Fails when
 * SECONDS have passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scale.h"
#include "storm.h"
#include "xrc_util.h"

/*
 * A process that was killed is gone at once, whatever it was waiting for. If not it is
 * said after a while where it is, and then given up.
 */
#define SLOW_DEATH_MS (3000 * xrc_scale())
#define DEATH_MS (30000 * xrc_scale())

struct child {
	pid_t pid;
	__u32 life;
	/* It is killed after so many calls, or at this time. */
	__u32 calls;
	long long at;
};

static struct storm *storm;
static struct child child[STORM_WORKERS];
/* Of this process: when whom to kill. */
static __u64 random_state;
static unsigned int kills, exits;
static long long slowest_death;

static unsigned int pick(unsigned int n)
{
	return (storm_random(&random_state) >> 33) % n;
}

static void start(unsigned int i)
{
	struct child *c = &child[i];

	memset(&storm->slot[i], 0, sizeof(storm->slot[i]));
	c->life++;
	/* Some do not get far. */
	c->calls = pick(8) ? pick(200) : 0;
	c->at = xrc_now() + pick(8000);
	fflush(stdout);
	c->pid = fork();
	if (!c->pid) {
		/* What the parent is told is not for them. */
		close(STDIN_FILENO);
		setpriority(PRIO_PROCESS, 0, 0);
		storm_work(storm, i, c->life);
		_exit(0);
	}
	if (c->pid < 0)
		storm_fail(storm, "fork: %s", strerror(errno));
}

/* It has ended with this status. */
static void ended(unsigned int i, int status, bool killed)
{
	child[i].pid = 0;
	if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		kills++;
	else if (WIFEXITED(status) && !WEXITSTATUS(status))
		exits++;
	else
		storm_fail(storm, "worker %u: exit status %#x", i, status);
}

static void show_stack(pid_t pid)
{
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	f = fopen(path, "r");
	printf("# process %d is slow to die:\n", pid);
	while (f && fgets(line, sizeof(line), f))
		printf("#   %s", line);
	if (f)
		fclose(f);
}

static void kill_one(unsigned int i)
{
	struct child *c = &child[i];
	long long start = xrc_now();
	bool shown = false;
	int status;
	pid_t pid;

	kill(c->pid, SIGKILL);
	do {
		pid = waitpid(c->pid, &status, WNOHANG);
		if (xrc_now() > start + DEATH_MS) {
			storm_fail(storm, "worker %u does not die", i);
			return;
		}
		if (!pid && !shown && xrc_now() > start + SLOW_DEATH_MS) {
			show_stack(c->pid);
			shown = true;
		}
		if (!pid)
			usleep(200);
	} while (!pid);
	if (slowest_death < xrc_now() - start)
		slowest_death = xrc_now() - start;
	ended(i, status, true);
}

/* Kill those whose time has come, and replace whoever has gone. */
static void turn(void)
{
	unsigned int i;
	int status;

	for (i = 0; i < STORM_WORKERS && !storm->failed; i++) {
		struct child *c = &child[i];

		if (waitpid(c->pid, &status, WNOHANG) == c->pid) {
			ended(i, status, false);
		} else if (__atomic_load_n(&storm->slot[i].calls,
					   __ATOMIC_RELAXED) >= c->calls ||
			   xrc_now() > c->at) {
			/* Calls begin and end when we look: wait a little. */
			usleep(pick(2000));
			kill_one(i);
		} else {
			continue;
		}
		if (!storm->failed)
			start(i);
	}
	usleep(4000);
}

static void stop(void)
{
	unsigned int i, n = kills;

	for (i = 0; i < STORM_WORKERS; i++)
		if (child[i].pid > 0)
			kill_one(i);
	kills = n;
}

static __u64 received(void)
{
	return __atomic_load_n(&storm->received, __ATOMIC_RELAXED);
}

static void report_errors(void)
{
	__u64 total[STORM_ERRNOS] = { 0 };
	unsigned int what, i;

	for (what = 0; what < STORM_CALLS; what++)
		for (i = 0; i < STORM_ERRNOS; i++)
			total[i] += storm->error[what][i];
	printf("# errors:");
	for (i = 0; i < STORM_ERRNOS; i++)
		if (total[i])
			printf(" %" PRIu64 " %s", (uint64_t)total[i],
			       strerrorname_np(i) ?: "?");
	printf("\n");
	for (what = 0; what < STORM_CALLS; what++) {
		printf("#   %-24s %8" PRIu64, storm_call_name[what],
		       (uint64_t)storm->done[what]);
		for (i = 0; i < STORM_ERRNOS; i++)
			if (storm->error[what][i])
				printf(", %" PRIu64 " %s",
				       (uint64_t)storm->error[what][i],
				       strerrorname_np(i) ?: "?");
		printf("\n");
	}
}

static void report(long long ms)
{
	printf("# %u kills, %u exits, %" PRIu64 " QPs created, %" PRIu64
	       " registrations, %" PRIu64 " connects, %" PRIu64 " disconnects, %"
	       PRIu64 " SRQs, in %lld s\n",
	       kills, exits, (uint64_t)storm->done[STORM_TGT_CREATE],
	       (uint64_t)storm->done[STORM_TGT_OPEN],
	       (uint64_t)storm->done[STORM_TGT_CONNECT],
	       (uint64_t)(storm->done[STORM_TGT_DISCONNECT] +
			  storm->done[STORM_TGT_RELEASE]),
	       (uint64_t)storm->done[STORM_SRQ_CREATE], ms / 1000);
	printf("# %" PRIu64 " messages received, %" PRIu64 " refused, %" PRIu64
	       " acknowledged to the sender, %" PRIu64 " not; %" PRIu64
	       " errors provoked, %" PRIu64 " events, %" PRIu64
	       " times the device was gone; slowest death %lld ms\n",
	       (uint64_t)storm->received, (uint64_t)storm->refused,
	       (uint64_t)storm->sent, (uint64_t)storm->unsent,
	       (uint64_t)storm->provoked, (uint64_t)storm->events,
	       (uint64_t)storm->rebinds, slowest_death);
	report_errors();
}

/* Nothing of this can work if messages do not flow and QPs are not shared. */
static void check_counts(void)
{
	if (!storm->received || !storm->done[STORM_TGT_OPEN] ||
	    !storm->done[STORM_TGT_CONNECT] || !storm->events ||
	    !(storm->done[STORM_TGT_DISCONNECT] + storm->done[STORM_TGT_RELEASE]))
		storm_fail(storm, "it was no storm");
}

/* A number on stdin; 0 if there is none, -1 at the end. */
static int asked(void)
{
	struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[16];
	ssize_t n;

	if (poll(&pfd, 1, 0) != 1)
		return 0;
	n = read(STDIN_FILENO, line, sizeof(line) - 1);
	if (n <= 0)
		return -1;
	line[n] = '\0';
	return atoi(line);
}

int main(int argc, char **argv)
{
	long long begin = xrc_now(), seconds = 300;
	unsigned int i, max_kills = 100;
	bool seeded = false, flowing = true;
	__u64 seed = 0, goal = 0;
	int opt, n = 0;

	storm = mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (storm == MAP_FAILED)
		return 1;
	while ((opt = getopt(argc, argv, "k:s:t:r")) != -1) {
		switch (opt) {
		case 'k':
			max_kills = atoi(optarg);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			seeded = true;
			break;
		case 't':
			seconds = atoi(optarg);
			break;
		case 'r':
			storm->removal = true;
			break;
		default:
			fprintf(stderr, "usage: storm_load [-k KILLS] [-s SEED] [-t SECONDS] [-r]\n");
			return 2;
		}
	}
	if (!seeded && getrandom(&seed, 4, 0) != 4)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("# seed %" PRIu64 "\n", (uint64_t)seed);
	storm->seed = seed;
	random_state = (seed + 1) * 0xd1342543de82ef95ULL | 1;
	for (i = 0; i < STORM_DOMAINS; i++) {
		storm->file[i] = memfd_create("storm", MFD_CLOEXEC);
		if (storm->file[i] < 0)
			return 1;
	}
	/* Those who are started find libibverbs' drivers loaded. */
	ibv_free_device_list(ibv_get_device_list(NULL));
	/* Who kills must get a turn. */
	setpriority(PRIO_PROCESS, 0, -10);

	for (i = 0; i < STORM_WORKERS; i++)
		start(i);
	if (storm->removal)
		puts("ready");
	while (!storm->failed && n >= 0 &&
	       (storm->removal || kills < max_kills)) {
		if (xrc_now() > begin + 1000 * seconds) {
			storm_fail(storm, "%lld s have passed", seconds);
			break;
		}
		turn();
		n = storm->removal && flowing ? asked() : 0;
		if (n > 0) {
			goal = received() + n;
			flowing = false;
		}
		if (!flowing && received() >= goal) {
			puts("flowing");
			flowing = true;
		}
	}
	stop();
	check_counts();
	report(xrc_now() - begin);
	if (storm->failed)
		printf("# FAILED: %s\n", storm->failure);
	return storm->failed != 0;
}
