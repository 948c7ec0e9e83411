#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kernel/comm/per_host.hpp"
#include "kernel/comm/socket_store.hpp"
#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "ranks_support.hpp"

namespace tessera::testing {

namespace {

constexpr const char* kToken = "a token for tests";

// Makes a rank's communicator from that of a plugin with this name, or of several.
using MakeNamed =
    std::function<std::shared_ptr<Communicator>(const char* name, CommunicatorArguments&)>;
using Join =
    std::function<std::shared_ptr<Communicator>(const MakeNamed& make, CommunicatorArguments&)>;

Join by(const char* name) {
  return [name](const MakeNamed& make, CommunicatorArguments& arguments) {
    return make(name, arguments);
  };
}

std::string run_rank(i64 rank,
                     const Join& join,
                     const RankOptions& options,
                     const std::string& address,
                     const RankBody& body) {
  try {
    SocketStore store(address, kToken, rank, options.world, options.init_timeout);
    CommunicatorArguments arguments;
    arguments.rank = rank;
    arguments.world = options.world;
    arguments.store = &store;
    arguments.timeout = options.timeout;
    arguments.init_timeout = options.init_timeout;
    const PluginHost plugins({TESSERA_BUILD_DIR "/plugins"});
    const Config config = Config::parse("");
    const auto make = [&](const char* name, CommunicatorArguments& of_type) {
      return plugins.make<Communicator>(name, *config.node(""), {}, of_type);
    };
    run_on_device(options, arguments, join(make, arguments), body);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string read_all(int fd) {
  std::string text;
  char bytes[4096];
  for (ssize_t n = 0; (n = read(fd, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(n));
  }
  close(fd);
  return text;
}

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
};

void write_all(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(2);
  close(fd);
}

std::vector<std::string> run_processes(const Join& join,
                                       const std::string& address,
                                       const RankOptions& options,
                                       const RankBody& body) {
  struct Child {
    pid_t pid;
    Pipe start, error;
  };
  // All are forked before the store's thread exists: a lock that a thread holds while another
  // forks, such as that of a sanitizer's allocator, stays locked in the child.
  std::vector<Child> children;
  for (i64 rank = 0; rank < options.world; ++rank) {
    Child child{0, {}, {}};
    const pid_t parent = getpid();
    child.pid = fork();
    if (child.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      close(child.start.write_end);
      for (const Child& elder : children) close(elder.start.write_end);
      const std::string at = read_all(child.start.read_end);
      const std::string error = run_rank(rank, join, options, at, body);
      write_all(child.error.write_end, error);
      _exit(error.empty() ? 0 : 1);
    }
    close(child.start.read_end);
    close(child.error.write_end);
    children.push_back(child);
  }
  const StoreServer server(address, kToken, options.world);
  for (const Child& child : children) write_all(child.start.write_end, server.address());
  std::vector<std::string> errors;
  for (const Child& child : children) errors.push_back(read_all(child.error.read_end));
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    waitpid(children[i].pid, &status, 0);
    if (WIFSIGNALED(status)) errors[i] = "killed by signal " + std::to_string(WTERMSIG(status));
  }
  return errors;
}

}  // namespace

std::vector<std::string> run_shm(const RankOptions& options, const RankBody& body) {
  return run_processes(by("shm"), "unix:@tessera-test-" + std::to_string(getpid()), options, body);
}

std::vector<std::string> run_gloo(const RankOptions& options, const RankBody& body) {
  return run_processes(by("gloo"), "tcp::0", options, body);
}

std::vector<std::string> run_per_host(const RankOptions& options, const RankBody& body) {
  const Hosts hosts(options.hosts);
  const Join join = [&](const MakeNamed& make, CommunicatorArguments& arguments) {
    const auto within = [&](CommunicatorArguments& of_type) { return make("shm", of_type); };
    const auto between = [&](CommunicatorArguments& of_type) {
      std::shared_ptr<Communicator> made = make("gloo", of_type);
      return options.between ? options.between(std::move(made)) : made;
    };
    return std::make_shared<PerHostCommunicator>(hosts, arguments, within, between);
  };
  return run_processes(join, "tcp::0", options, body);
}

}  // namespace tessera::testing
