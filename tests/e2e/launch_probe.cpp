// A program whose ranks misbehave on demand: launch_probe RANKS BEHAVIOUR [RANK]. Or they become
// another program's ranks, each in the folder of its number: launch_probe RANKS apart COMMAND...

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/failure.hpp"
#include "kernel/launch/launcher.hpp"
#include "kernel/launch/rendezvous.hpp"
#include "kernel/launch/signals.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using namespace std::chrono_literals;

struct Rank {
  const RankEnvironment& env;
  Store& store;
  bool chosen;  // is to misbehave

  void meet() const { ControlPlane(&store, env.rank, env.world, 20s).same({{"program", "probe"}}); }
  // What a collective does in a rank whose peer is gone.
  void wait_for_peers() const { store.get("never set", 1h); }
};

[[noreturn]] void sleep_on() {
  for (;;) std::this_thread::sleep_for(1h);
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void fail_with(const Rank& rank, const Error& error) {
  if (rank.chosen) throw error;
  rank.wait_for_peers();
}

void die(const Rank& rank, const std::function<void()>& death) {
  if (rank.chosen) death();
  rank.wait_for_peers();
}

void chat(const Rank& rank) {
  for (int line = 0; line < 5000; ++line) {
    std::fprintf(stderr, "warning %d of rank %d\n", line, static_cast<int>(rank.env.rank));
    say("line " + std::to_string(line));
  }
  std::fputs("unfinished", stderr);
}

// Trains until asked to stop.
void step(const Rank& rank) {
  const StopFlag stop;
  say("ready " + std::to_string(rank.env.rank));
  while (!stop.requested()) std::this_thread::sleep_for(5ms);
  rank.meet();
  say("saved " + std::to_string(rank.env.rank));
  report_interrupted(rank.env.report);
}

void ignore_interrupts(const Rank& rank) {
  const StopFlag stop(StopFlag::SecondInterrupt::counted);
  say("ready " + std::to_string(rank.env.rank));
  sleep_on();
}

void leave_a_child() {
  if (fork() == 0) sleep_on();
}

const std::map<std::string, std::function<void(const Rank&)>> kBehaviours = {
    {"works", [](const Rank& rank) { say("rank " + std::to_string(rank.env.rank) + " is done"); }},
    {"fails", [](const Rank& r) { fail_with(r, Error("the disk is full")); }},
    {"rejects", [](const Rank& r) { fail_with(r, ConfigError("no such device")); }},
    {"all_reject", [](const Rank&) { throw ConfigError("unknown key \"betta\""); }},
    {"is_killed", [](const Rank& r) { die(r, [] { std::raise(SIGKILL); }); }},
    {"aborts", [](const Rank& r) { die(r, [] { std::abort(); }); }},
    {"exits",
     [](const Rank& r) {
       die(r, [] {
         std::fputs("no license\n", stderr);
         _exit(3);
       });
     }},
    {"leaves", [](const Rank& r) { die(r, [] { _exit(0); }); }},
    {"fails_alone",  // the others notice nothing and do not listen
     [](const Rank& r) {
       const StopFlag stop(StopFlag::SecondInterrupt::counted);
       if (r.chosen) fail("the disk is full");
       sleep_on();
     }},
    {"stops",  // after the others waited for it last
     [](const Rank& r) {
       if (r.chosen) std::raise(SIGSTOP);
     }},
    {"chats", chat},
    {"steps", step},
    {"ignores", ignore_interrupts},
    {"sleeps",
     [](const Rank& r) {
       say("ready " + std::to_string(r.env.rank));
       sleep_on();
     }},
    {"leaves_a_child", [](const Rank&) { leave_a_child(); }},
};

void run_rank(const RankEnvironment& env, const std::string& behaviour, i64 chosen) {
  Rendezvous rendezvous(env, 20s);
  const Rank rank{env, rendezvous.store(), env.rank == chosen};
  if (env.rank == 0) say("store " + env.store);
  rank.meet();
  kBehaviours.at(behaviour)(rank);
}

[[noreturn]] void become_apart(const RankEnvironment& env, std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  if (chdir(std::to_string(env.rank).c_str()) == 0) execv(words[0], words.data());
  fail("cannot become {}: {}", command[0], SystemError());
}

int run(const std::vector<std::string>& arguments) {
  std::optional<RankEnvironment> env;
  try {
    env = detect_environment();
    if (!env) return launch_ranks(std::stol(arguments.at(1)), arguments);
    if (arguments.at(2) == "apart") become_apart(*env, {arguments.begin() + 3, arguments.end()});
    run_rank(*env, arguments.at(2), arguments.size() > 3 ? std::stol(arguments[3]) : -1);
    return 0;
  } catch (const Error& error) {
    if (!env || !report_failure(env->report, error)) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    return error.exit_code();
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  return tessera::run({argv, argv + argc});
}
