#include "kernel/launch/launcher.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <optional>

#include "kernel/comm/crypto.hpp"
#include "kernel/comm/socket_store.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/failure.hpp"
#include "kernel/launch/processors.hpp"
#include "kernel/launch/progress_board.hpp"
#include "kernel/launch/rank_process.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/system/limits.hpp"
#include "sdk/src/shared/usable_cpus.hpp"
#include "tessera/device/stood_still.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/observer.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTimeToLook{4000};
// Between SIGKILL and the word that a rank does not end: the system may take a while to free
// memory.
constexpr std::chrono::milliseconds kTimeToDie{2000};
constexpr int kLookEvery = 50;  // milliseconds

// The real path, so that lists of processes show the program's name; the link, when the file has
// been replaced since.
std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && access(path.c_str(), X_OK) == 0 ? path.string() : "/proc/self/exe";
}

// Our environment without the variables that ranks are given anew, and without `more`.
std::vector<std::string> inherited_environment(const std::vector<std::string>& more = {}) {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const auto given = {kRankVariable,
                        kWorldVariable,
                        kStoreVariable,
                        kTokenVariable,
                        kReportVariable,
                        kProgressVariable,
                        kThreadsVariable};
    const bool drops = std::find(given.begin(), given.end(), name) != given.end() ||
                       std::find(more.begin(), more.end(), name) != more.end();
    if (!drops) list.emplace_back(text);
  }
  return list;
}

// Processors that are named one by one are those of one process: all ranks would run on them.
void drop_named_processors(RankProgram& program) {
  const NamedProcessors named = named_processors();
  if (named.variables.empty()) return;
  program.environment = inherited_environment(named.variables);
  if (!named.binds) program.environment.emplace_back("OMP_PROC_BIND=true");
  write_all(STDERR_FILENO,
            fmt::format("{} names processors of one process: each rank is bound to processors of "
                        "its own instead\n",
                        binding_text()));
}

// Where OpenMP binds threads, the first thread of every process is bound to the first processor
// that it may use: each rank gets processors of its own, or its threads are not bound.
void give_processors(RankProgram& program, i64 ranks, int threads) {
  if (!threads_are_bound()) return;
  const std::vector<int> cpus = allowed_cpus();
  const auto shares = share_processors(cpus, ranks, std::max(threads, 1));
  for (const std::vector<int>& share : shares) program.processors.emplace_back(share);
  if (!shares.empty()) {
    drop_named_processors(program);
    return;
  }
  program.processors.assign(static_cast<std::size_t>(ranks), CpuMask(cpus));
  program.environment =
      inherited_environment({std::begin(kBindingVariables), std::end(kBindingVariables)});
  program.environment.emplace_back("OMP_PROC_BIND=false");
  write_all(STDERR_FILENO,
            fmt::format("{} is without effect: {} ranks of {} thread{} have {} processor{}\n",
                        binding_text(),
                        ranks,
                        threads,
                        threads == 1 ? "" : "s",
                        cpus.size(),
                        cpus.size() == 1 ? "" : "s"));
}

bool is_newer(const std::string& file, std::filesystem::file_time_type than) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  return !error && written + std::chrono::seconds(1) > than;  // file systems round
}

// How one attempt of all ranks ended.
struct Ending {
  int code = 0;
  std::string text = {};                       // to print; the cause comes last
  std::optional<AttemptFailure> failure = {};  // that a restart may mend
};

// One attempt of all ranks.
class Launch {
 public:
  Launch(const LaunchOptions& options, const StopFlag& stop, const ProgressBoard& board)
      : options_(options), stop_(stop), board_(board) {}

  void start(i64 ranks, const RankProgram& program) {
    for (i64 rank = 0; rank < ranks && !stop_.requested(); ++rank) {
      ranks_.emplace_back(rank, program);
    }
  }

  Ending run() {
    if (stop_.requested())
      return {kill_everything(stop_.signal())};  // perhaps before all were started
    while (running()) {
      wait();
      ++look_;
      read_reports();
      for (RankProcess& rank : ranks_) rank.attend(look_);
      if (stop_.interrupts() > 1) return {kill_everything(SIGINT)};
      suspend();
      pass_signals_on();
      find_frozen();
      end_the_rest();
      give_up_stuck();
    }
    return result();
  }

 private:
  bool running() const {
    return std::any_of(
        ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running(); });
  }

  // Waits until something is to be read, or for a moment: signals and ends of processes show only
  // when it looks, and an end trails that of its pipes a little.
  void wait() const {
    std::vector<pollfd> polled;
    bool ending = false;
    for (const RankProcess& rank : ranks_) {
      rank.add_to(polled);
      ending = ending || (rank.running() && rank.ending());
    }
    poll(polled.data(), polled.size(), ending ? 2 : kLookEvery);
  }

  // Drains all pipes, so that a cause is read before its consequences.
  void read_reports() {
    for (bool news = true; news;) {
      news = false;
      for (RankProcess& rank : ranks_) news = rank.read_report(look_) || news;
    }
  }

  void pass_signals_on() {
    if (passed_.interrupts < stop_.interrupts()) {
      if (!options_.stopping.empty()) write_all(STDERR_FILENO, options_.stopping + "\n");
      send_all(SIGTERM);  // a rank that got the interrupt, too, does not take this for a second one
    }
    if (passed_.terminations < stop_.terminations()) send_all(SIGTERM);
    if (stop_.output_closed() && !passed_.closing) send_all(SIGTERM);
    passed_.interrupts = stop_.interrupts();
    passed_.terminations = stop_.terminations();
    passed_.closing = stop_.output_closed();
  }

  // Ctrl-Z reaches this process alone, as ranks are in groups of their own: it takes them along.
  void suspend() {
    if (!stop_.suspension()) return;
    send_all(SIGSTOP);
    stop_.suspend();
    send_all(SIGCONT);
  }

  void send_all(int signal) {
    for (const RankProcess& rank : ranks_) rank.send(signal);
  }

  void find_frozen() {
    const bool some_ended =
        std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank.running(); });
    const bool rest_frozen = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
      return !rank.running() || rank.frozen();
    });
    if (!rest_frozen) {
      frozen_.since.reset();
      frozen_.told = false;
      return;
    }
    if (!frozen_.since) frozen_.since = Clock::now();
    if (Clock::now() - *frozen_.since < options_.frozen_after) return;
    if (!some_ended) {  // whoever stopped them all may let them go on
      if (!std::exchange(frozen_.told, true)) {
        write_all(STDERR_FILENO,
                  "all ranks are stopped (by SIGSTOP or a debugger); SIGCONT lets them go on\n");
      }
      return;
    }
    for (RankProcess& rank : ranks_) {
      if (rank.running()) rank.mark_frozen();
    }
  }

  void end_the_rest() {
    const bool any = std::any_of(
        ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return failed(rank.end()); });
    if (!any) return;
    if (first_failure_ == Clock::time_point()) {
      first_failure_ = Clock::now();
      for (RankProcess& rank : ranks_) {
        if (!failed(rank.end()) && rank.frozen()) rank.mark_frozen();
      }
    }
    const auto since = Clock::now() - first_failure_ - time_to_look();
    const bool only_frozen = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
      return !rank.running() || rank.end().frozen;
    });
    if (since >= options_.kill_after || only_frozen) {
      mark_stopped();
      kill_all();
    } else if (since >= options_.terminate_after && !force_.terminated) {
      force_.terminated = true;
      mark_stopped();
      send_all(SIGTERM);
    }
  }

  void kill_all() {
    for (const RankProcess& rank : ranks_) rank.kill_all();
    if (!force_.killed) force_.killed = Clock::now();
  }

  // A process that waits within the system (state D) takes no signal. Time in which this process
  // stood still itself does not count: whatever stopped it may have stopped the ranks.
  void give_up_stuck() {
    const auto stood = stood_still_.look(std::chrono::milliseconds(kLookEvery));
    const bool by_failure = first_failure_ != Clock::time_point();  // else a user ends the run
    if (by_failure) first_failure_ += stood;
    if (!force_.killed) return;
    *force_.killed += stood;
    const auto now = Clock::now();
    if (now - *force_.killed < kTimeToDie) return;
    const bool gives_up =
        now - (by_failure ? first_failure_ : *force_.killed) >= options_.stuck_after;
    for (RankProcess& rank : ranks_) {
      if (!rank.running()) continue;
      if (!force_.told) {
        write_all(STDERR_FILENO,
                  fmt::format("rank {} has not ended {} s after SIGKILL: {}\n",
                              rank.end().rank,
                              kTimeToDie.count() / 1000,
                              rank.why_stuck()));
      }
      if (gives_up) rank.give_up();
    }
    force_.told = true;
  }

  // Ranks that waited in vain look for the one that is to blame (Pulse), which takes a moment.
  std::chrono::milliseconds time_to_look() const {
    const bool known = std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) {
      const RankEnd& end = rank.end();
      return failed(end) && (!end.report || end.report->error.kind() != ErrorKind::peer_failed);
    });
    return known ? std::chrono::milliseconds(0) : kTimeToLook;
  }

  void mark_stopped() {
    for (RankProcess& rank : ranks_) {
      if (rank.running()) rank.mark_stopped();
    }
  }

  int kill_everything(int signal) {
    kill_all();
    while (running()) {
      wait();
      for (RankProcess& rank : ranks_) rank.attend(look_);
      give_up_stuck();
    }
    for (const RankProcess& rank : ranks_) {
      if (rank.end().stuck.empty()) continue;
      write_all(STDERR_FILENO, describe(rank.end()) + "\n");
    }
    return 128 + signal;
  }

  // All stop after the same step, so where one was interrupted, the run was.
  static int end_of_all(const std::vector<RankEnd>& ends) {
    return std::any_of(ends.begin(), ends.end(), interrupted) ? kInterrupted : 0;
  }

  // Nothing but the system's own count says why it killed a process.
  void find_starved() {
    const auto now = out_of_memory_kills();
    if (!now || !kills_before_ || now->count <= kills_before_->count) return;
    for (RankProcess& rank : ranks_) {
      if (rank.end().signal != SIGKILL || rank.end().stopped_by_us) continue;
      rank.mark_starved(now->limit);
    }
  }

  // Adds ranks that were stopped or killed: they wrote no records themselves.
  void tell_of_silent(const std::vector<RankEnd>& ends) const try {
    if (is_pipe(options_.flight_records)) return;
    const bool others_wrote = is_newer(options_.flight_records, started_);
    for (const RankEnd& end : ends) {
      const auto progress = board_.of(end.rank);
      const std::vector<std::string> actions = progress->actions();
      if (!failed(end) || end.report || (actions.empty() && !others_wrote)) continue;
      std::string text = fmt::format("rank {} left no record; {} it ended so: {}\n",
                                     end.rank,
                                     step_text(progress->step()),
                                     describe(end));
      for (const std::string& action : actions) text += fmt::format("  it began {}\n", action);
      for (const std::string& started : progress->collectives()) text += "  " + started + "\n";
      OutputFile(options_.flight_records, OutputFile::Start::append).write(text);
    }
  } catch (const Error&) {  // a full disk: how the ranks ended is told all the same
  }

  Ending result() {
    find_starved();
    std::vector<RankEnd> ends;
    for (const RankProcess& rank : ranks_) ends.push_back(rank.end());
    const RankEnd* cause = find_cause(ends);
    if (cause == nullptr) return {stop_.output_closed() ? kOutputClosed : end_of_all(ends)};
    // The reader that closed the output knows already.
    if (cause->signal == SIGPIPE || cause->exit_code == kOutputClosed) return {kOutputClosed};
    // The signal came before the rank could stop in good order: it ended as it was asked to.
    const bool asked = cause->signal == SIGTERM || cause->signal == stop_.signal();
    if (stop_.requested() && asked) return {128 + stop_.signal()};
    std::string text;
    tell_of_silent(ends);
    const int code = cause->report ? cause->report->error.exit_code() : cause->exit_code;
    // The records say nothing of a mistake in the configuration.
    if (code != 2 && is_newer(options_.flight_records, started_)) {
      text = fmt::format("what each rank did last: {}\n", options_.flight_records);
    }
    const std::vector<std::string> lines = failure_lines(ends);
    for (const std::string& line : lines) text += line + "\n";
    if (code == 2) return {2, text};
    for (const RankEnd& end : ends) {  // such a rank may still write where a new one would
      if (end.stuck.empty()) continue;
      if (options_.restarts == 0) return {1, text};
      return {1, fmt::format("no restart: rank {} is still there\n", end.rank) + text};
    }
    return {1, text, AttemptFailure{board_.of(cause->rank)->step(), lines.back()}};
  }

  const LaunchOptions& options_;
  const std::filesystem::file_time_type started_ = std::filesystem::file_time_type::clock::now();
  const StopFlag& stop_;
  const ProgressBoard& board_;
  std::list<RankProcess> ranks_;
  const std::optional<OutOfMemoryKills> kills_before_ = out_of_memory_kills();
  i64 look_ = 0;
  struct {  // signals that ranks have been sent on
    int interrupts = 0, terminations = 0;
    bool closing = false;
  } passed_;
  Clock::time_point first_failure_;
  struct {  // all ranks that have not ended
    std::optional<Clock::time_point> since = {};
    bool told = false;
  } frozen_;
  struct {  // what has been done to ranks that do not end
    bool terminated = false, told = false;
    std::optional<Clock::time_point> killed = {};  // when they were first sent SIGKILL
  } force_;
  StoodStill stood_still_;
};

Ending attempt(i64 ranks,
               const std::vector<std::string>& argv,
               const LaunchOptions& options,
               const StopFlag& stop,
               const ProgressBoard& board) {
  const std::string address = "unix:@tessera-" + hex_text(random_bytes(16));
  const std::string token = hex_text(random_bytes(16));
  Launch launch(options, stop, board);
  const StoreServer server(address, token, ranks);
  RankProgram program{
      .path = own_program(), .arguments = argv, .environment = inherited_environment()};
  give_processors(program, ranks, options.threads);
  program.environment.insert(
      program.environment.end(), options.environment.begin(), options.environment.end());
  program.environment.push_back(fmt::format("{}={}", kWorldVariable, ranks));
  program.environment.push_back(fmt::format("{}={}", kStoreVariable, address));
  program.environment.push_back(fmt::format("{}={}", kTokenVariable, token));
  program.environment.push_back(fmt::format("{}={}", kProgressVariable, board.number()));
  if (options.threads > 0) {
    program.environment.push_back(fmt::format("{}={}", kThreadsVariable, options.threads));
  }
  launch.start(ranks, program);
  return launch.run();
}

}  // namespace

int launch_ranks(i64 ranks, const std::vector<std::string>& argv, const LaunchOptions& options) {
  if (ranks < 1) fail_config("cannot start {} ranks", ranks);
  // Two pipes and some connections to the store of each rank.
  require_open_files(32 + 8 * ranks, fmt::format("launch: this process, with {} ranks,", ranks));
  const StopFlag stop(StopFlag::SecondInterrupt::counted);
  ProgressBoard board(ranks);
  Restarts restarts(options.restarts);
  std::vector<std::string> arguments = argv;
  for (;;) {
    const Ending ending = attempt(ranks, arguments, options, stop, board);
    const bool mends = ending.failure && !stop.requested();
    const Restarts::Decision decision =
        mends ? restarts.decide(*ending.failure) : Restarts::Decision{};
    if (!decision.again) {
      const std::string why = decision.why_not.empty() ? "" : decision.why_not + "\n";
      write_all(STDERR_FILENO, why + ending.text);
      return ending.code;
    }
    Restart restart;
    try {
      if (options.restart) restart = options.restart();
    } catch (const std::exception& error) {  // what ended the ranks comes last
      write_all(STDERR_FILENO, fmt::format("no restart: {}\n{}", error.what(), ending.text));
      return ending.code;
    }
    write_all(STDERR_FILENO,
              ending.text + fmt::format("restart {} of {}: the run failed {}; all ranks start {}\n",
                                        restarts.made(),
                                        restarts.limit(),
                                        step_text(ending.failure->step),
                                        restart.from));
    arguments = argv;
    arguments.insert(arguments.end(), restart.arguments.begin(), restart.arguments.end());
    board.clear();
  }
}

std::vector<std::string> program_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  require(!arguments.empty(), "launch: cannot read /proc/self/cmdline");
  return arguments;
}

}  // namespace tessera
