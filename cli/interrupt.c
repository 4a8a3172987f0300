/* Ctrl-C asks once, so that a step can be finished and saved; the second time the process ends at once. */
#include <signal.h>
#include <string.h>

#include "command.h"

/* A signal handler can reach nothing but an object of static storage. */
static volatile sig_atomic_t stop;

static void on_signal(int number) {
  stop = 1;
  (void)signal(number, SIG_DFL);
}

volatile sig_atomic_t *qn_cli_catch_interrupt(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGINT, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  return &stop;
}
