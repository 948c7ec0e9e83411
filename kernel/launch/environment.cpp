#include "kernel/launch/environment.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "kernel/comm/crypto.hpp"
#include "kernel/launch/slurm_tasks.hpp"
#include "kernel/launch/starter_process.hpp"
#include "kernel/launch/user_secret.hpp"
#include "sdk/src/shared/usable_cpus.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

i64 parse_number(const char* name, const std::string& text) {
  i64 value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    fail_config("environment variable {}={} is not a whole number", name, written_plain(text));
  }
  return value;
}

// The variables of one starter.
class Variables {
 public:
  Variables(const EnvironmentReader& read, std::string starter)
      : read_(read), starter_(std::move(starter)) {}

  std::optional<std::string> text(const char* name) const { return read_(name); }
  bool has(const char* name) const { return read_(name).has_value(); }

  std::optional<i64> number(const char* name) const {
    const auto found = read_(name);
    if (!found) return std::nullopt;
    return parse_number(name, *found);
  }

  std::string need_text(const char* name, const char* because) const {
    const auto found = read_(name);
    if (!found) {
      fail_config("{} is set but {} is not: set both, as {} does, or unset {} to start ranks here",
                  because,
                  name,
                  starter_,
                  because);
    }
    return *found;
  }
  i64 need(const char* name, const char* because) const {
    return parse_number(name, need_text(name, because));
  }

  // "A=1, B=2 and C=3".
  std::string shown(const std::vector<const char*>& names) const {
    std::string out;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) out += i + 1 == names.size() ? " and " : ", ";
      out += fmt::format("{}={}", names[i], written_plain(read_(names[i]).value_or("")));
    }
    return out;
  }

  // `rank` < `world`, where both are given.
  void check(const char* rank_name, i64 rank, const char* world_name, i64 world) const {
    if (rank < world) return;
    fail_config("environment variables {}={} and {}={} contradict each other: ranks count from 0",
                rank_name,
                rank,
                world_name,
                world);
  }

 private:
  const EnvironmentReader& read_;
  std::string starter_;
};

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// A socket name of this user and job, without odd characters. Everybody may know user and job; only
// those who have the secret know the hash, so nobody else takes the name first.
std::string local_store(std::string_view job, std::string_view secret) {
  constexpr std::size_t kLongest = 48;  // with user and hash, of 106 characters
  const std::string user = std::to_string(geteuid());
  std::string name(job.substr(0, kLongest));
  std::replace_if(
      name.begin(),
      name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_'; },
      '-');
  const std::string hash = hex_text(keyed_hash(secret, {"tessera store name", user, job}));
  return fmt::format("unix:@tessera-{}-{}-{}", user, name, hash.substr(0, 32));
}

[[noreturn]] void fail_port(i64 port) {
  fail_config("environment variable MASTER_PORT={} is not a usable port", port);
}

// Sets where the ranks of a job meet that we did not start.
void place_store(RankEnvironment& env, const Variables& variables, const std::string& job) {
  const auto token = variables.text(kTokenVariable);
  if (env.local_world == env.world) {
    const std::string name = variables.text(kJobVariable).value_or(job);
    if (!token) env.secret = user_secret_folder(variables.text("XDG_RUNTIME_DIR"));
    const std::string secret = token ? *token : user_secret(env.secret);
    env.store = local_store(name, secret);
    env.token = token ? *token : hex_text(keyed_hash(secret, {"tessera run token", name}));
    return;
  }
  const auto host = variables.text("MASTER_ADDR");
  const auto port = variables.number("MASTER_PORT");
  if (!host || !port) {
    fail_config(
        "{} started {} ranks on several hosts: set MASTER_ADDR and MASTER_PORT to a host and a "
        "free port where rank 0 can be reached",
        env.starter,
        env.world);
  }
  if (!token) {
    fail_config(
        "{} started {} ranks on several hosts: set {} to the same secret text for all of them, so "
        "that nobody else can join",
        env.starter,
        env.world,
        kTokenVariable);
  }
  // torchrun's own store listens on the port itself.
  const i64 offset = variables.has("TORCHELASTIC_RUN_ID") ? 1 : 0;
  if (*port < 1 || *port + offset > 65535) fail_port(*port);
  env.store = fmt::format("tcp:{}:{}", *host, *port + offset);
  env.token = *token;
}

// The same for starters that may give the job no name.
void place_local_store(RankEnvironment& env,
                       const Variables& variables,
                       const std::optional<std::string>& job,
                       const char* rank_name) {
  env.unnamed_job = !job && !variables.has(kJobVariable) && env.local_world == env.world;
  place_store(env,
              variables,
              job ? fmt::format("{}-{}", env.starter, *job)
                  : fmt::format("{}-of-{}", env.starter, starter_process(rank_name)));
}

std::optional<RankEnvironment> from_launcher(const EnvironmentReader& read) {
  const Variables v(read, "tessera");
  if (!v.has(kRankVariable) && !v.has(kWorldVariable)) return std::nullopt;
  RankEnvironment env{.own = true, .starter = "tessera"};
  env.rank = env.local_rank = v.need(kRankVariable, kWorldVariable);
  env.world = env.local_world = v.need(kWorldVariable, kRankVariable);
  v.check(kRankVariable, env.rank, kWorldVariable, env.world);
  env.store = v.need_text(kStoreVariable, kRankVariable);
  env.token = v.need_text(kTokenVariable, kRankVariable);
  env.report = static_cast<int>(v.number(kReportVariable).value_or(-1));
  env.progress = static_cast<int>(v.number(kProgressVariable).value_or(-1));
  env.threads = static_cast<int>(v.number(kThreadsVariable).value_or(0));
  return env;
}

std::optional<RankEnvironment> from_torchrun(const EnvironmentReader& read) {
  const Variables v(read, "torchrun");
  if (!v.has("RANK") && !v.has("WORLD_SIZE")) return std::nullopt;
  RankEnvironment env{.starter = "torchrun"};
  env.rank = v.need("RANK", "WORLD_SIZE");
  env.world = v.need("WORLD_SIZE", "RANK");
  v.check("RANK", env.rank, "WORLD_SIZE", env.world);
  env.variables = v.shown({"RANK", "WORLD_SIZE"});
  const std::string host = v.need_text("MASTER_ADDR", "RANK");
  const i64 port = v.need("MASTER_PORT", "RANK");
  if (port < 1 || port > 65535) fail_port(port);
  if (v.has("LOCAL_RANK") || v.has("LOCAL_WORLD_SIZE")) {
    env.local_rank = v.need("LOCAL_RANK", "LOCAL_WORLD_SIZE");
    env.local_world = v.need("LOCAL_WORLD_SIZE", "LOCAL_RANK");
    v.check("LOCAL_RANK", env.local_rank, "LOCAL_WORLD_SIZE", env.local_world);
  } else if (is_loopback(host) || env.world == 1) {
    env.local_rank = env.rank;
    env.local_world = env.world;
  } else {
    fail_config(
        "RANK and WORLD_SIZE are set, but not LOCAL_RANK and LOCAL_WORLD_SIZE: which ranks share a "
        "host cannot be known from MASTER_ADDR={}",
        written_plain(host));
  }
  // Two runs on a host cannot share the port; a restart must not meet what is left of the last one.
  place_store(env,
              v,
              fmt::format("torchrun-{}-{}-{}",
                          v.text("TORCHELASTIC_RUN_ID").value_or("none"),
                          port,
                          v.text("TORCHELASTIC_RESTART_COUNT").value_or("0")));
  return env;
}

std::optional<RankEnvironment> from_open_mpi(const EnvironmentReader& read) {
  const char* const rank_name = "OMPI_COMM_WORLD_RANK";
  const char* const world_name = "OMPI_COMM_WORLD_SIZE";
  const char* const local_rank_name = "OMPI_COMM_WORLD_LOCAL_RANK";
  const char* const local_world_name = "OMPI_COMM_WORLD_LOCAL_SIZE";
  const Variables v(read, "mpirun");
  if (!v.has(rank_name) && !v.has(world_name)) return std::nullopt;
  RankEnvironment env{.starter = "mpirun"};
  env.rank = v.need(rank_name, world_name);
  env.world = v.need(world_name, rank_name);
  v.check(rank_name, env.rank, world_name, env.world);
  env.variables = v.shown({rank_name, world_name});
  env.local_rank = v.need(local_rank_name, rank_name);
  env.local_world = v.need(local_world_name, rank_name);
  v.check(local_rank_name, env.local_rank, local_world_name, env.local_world);
  place_local_store(env, v, v.text("PMIX_NAMESPACE"), rank_name);
  return env;
}

// Whatever is built on Hydra.
std::optional<RankEnvironment> from_mpich(const EnvironmentReader& read) {
  const Variables v(read, "mpiexec");
  if (!v.has("PMI_RANK") && !v.has("PMI_SIZE")) return std::nullopt;
  // srun sets the first two as well, for programs that are linked with MPI.
  if (v.has("SLURM_STEP_ID") && !v.has("MPI_LOCALRANKID")) return std::nullopt;
  RankEnvironment env{.starter = "mpiexec"};
  env.rank = v.need("PMI_RANK", "PMI_SIZE");
  env.world = v.need("PMI_SIZE", "PMI_RANK");
  v.check("PMI_RANK", env.rank, "PMI_SIZE", env.world);
  env.variables = v.shown({"PMI_RANK", "PMI_SIZE"});
  env.local_rank = v.need("MPI_LOCALRANKID", "PMI_RANK");
  env.local_world = v.need("MPI_LOCALNRANKS", "PMI_RANK");
  v.check("MPI_LOCALRANKID", env.local_rank, "MPI_LOCALNRANKS", env.local_world);
  place_local_store(env, v, std::nullopt, "PMI_RANK");
  return env;
}

std::optional<RankEnvironment> from_slurm(const EnvironmentReader& read) {
  const Variables v(read, "srun");
  // Without a step the shell is that of a job's script, which is no rank.
  if (!v.has("SLURM_STEP_ID") || !v.has("SLURM_PROCID")) return std::nullopt;
  RankEnvironment env{.starter = "srun"};
  env.rank = v.need("SLURM_PROCID", "SLURM_STEP_ID");
  env.world = v.need("SLURM_NTASKS", "SLURM_PROCID");
  // A step of one task is most often an interactive shell.
  if (env.world == 1) return std::nullopt;
  v.check("SLURM_PROCID", env.rank, "SLURM_NTASKS", env.world);
  env.variables = v.shown({"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS"});
  env.local_rank = v.need("SLURM_LOCALID", "SLURM_PROCID");
  env.local_world = env.world;
  if (v.number("SLURM_STEP_NUM_NODES").value_or(v.number("SLURM_NNODES").value_or(1)) > 1) {
    env.local_world =
        slurm_tasks_of_node(v.need_text("SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_NODES"),
                            v.need("SLURM_NODEID", "SLURM_STEP_NUM_NODES"));
  }
  v.check("SLURM_LOCALID", env.local_rank, "SLURM_NTASKS", env.local_world);
  place_store(
      env,
      v,
      fmt::format(
          "srun-{}-{}", v.need_text("SLURM_JOB_ID", "SLURM_PROCID"), *v.text("SLURM_STEP_ID")));
  return env;
}

// A starter may run within another one, so all their variables go.
std::string without_starter(const EnvironmentReader& read) {
  std::string command = "env";
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "SLURM_STEP_ID"}) {
    if (read(name)) command += fmt::format(" -u {}", name);
  }
  return command;
}

// Its end is how the launcher sees the rank's, so what this rank starts must not hold it open. Of a
// process that dies, Linux closes the highest descriptors first (task_work runs last in, first
// out): this one before the connections whose ends its peers see.
int keep_report(int given) {
  constexpr int kHigh = 512;
  const int kept = fcntl(given, F_DUPFD_CLOEXEC, kHigh);
  if (kept < 0) return fcntl(given, F_SETFD, FD_CLOEXEC) == 0 ? given : -1;
  close(given);
  return kept;
}

}  // namespace

std::optional<RankEnvironment> detect_environment(const EnvironmentReader& read) {
  // Tries the innermost starter first: srun may start torchrun, which may start our launcher.
  for (const auto from : {from_launcher, from_torchrun, from_open_mpi, from_mpich, from_slurm}) {
    auto found = from(read);
    if (!found) continue;
    if (!found->own) found->without_starter = without_starter(read);
    return found;
  }
  return std::nullopt;
}

std::optional<RankEnvironment> detect_environment() {
  auto env = detect_environment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  });
  if (env && env->report >= 0) env->report = keep_report(env->report);
  return env;
}

i64 auto_threads(i64 local_world) {
  require(local_world >= 1, "auto_threads: {} ranks on this host", local_world);
  return std::max<i64>(1, usable_cpus() / local_world);
}

int rank_threads(const DeviceSection& device, i64 local_world) {
  if (device.threads) return static_cast<int>(*device.threads);
  return static_cast<int>(std::min<i64>(auto_threads(local_world), team_limit().threads));
}

std::string limited_threads_text(const DeviceSection& device, i64 local_world) {
  const int threads = rank_threads(device, local_world);
  const i64 share = auto_threads(local_world);
  if (device.threads || threads == share) return {};
  return fmt::format(
      "device.threads = \"auto\" is {} and not {}: {}", threads, share, team_limit().by);
}

}  // namespace tessera
