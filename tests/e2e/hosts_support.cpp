#include "hosts_support.hpp"

#include <unistd.h>

#include <stdexcept>

namespace tessera::testing {

namespace {

using Command = std::vector<std::string>;

// Whoever is not root becomes it in a user namespace of the first host.
bool is_root() { return geteuid() == 0; }

void run(const Command& command) {
  const ProcessResult result = run_process(command);
  if (result.exit_code == 0) return;
  std::string text;
  for (const std::string& word : command) text += word + " ";
  throw std::runtime_error(text + "ends with " + std::to_string(result.exit_code) + ": " +
                           result.err);
}

Command joined(Command first, const Command& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

std::unique_ptr<TwoHosts> TwoHosts::make(const TestFolder& folder, std::string& why) {
  std::unique_ptr<TwoHosts> made(new TwoHosts);
  try {
    for (const int host : {0, 1}) made->start(folder, host);
    made->connect();
    return made;
  } catch (const std::exception& error) {
    why = error.what();
    return nullptr;
  }
}

void TwoHosts::start(const TestFolder& folder, int host) {
  const std::string address = host == 0 ? "127.0.1.1" : "10.77.0.1";
  const std::string name = "hosts" + std::to_string(host);
  const std::string names =
      folder.write(name, "127.0.0.1 localhost\n" + address + " " + kName + "\n");
  Command command;
  if (!is_root() && host == 1) {
    command = {"nsenter", "--target", pid(0), "--user", "--preserve-credentials"};
  }
  command = joined(command, {"unshare", "--net", "--mount"});
  if (!is_root() && host == 0) command = joined(command, {"--user", "--map-root-user"});
  command = joined(command,
                   {"setpriv",
                    "--pdeathsig",
                    "KILL",
                    "sh",
                    "-c",
                    "mount --bind \"$0\" /etc/hosts && echo ready && exec sleep 600",
                    names});
  hosts_[host] = std::make_unique<Process>(command);
  if (hosts_[host]->shows("ready", 1, std::chrono::seconds(5))) return;
  throw std::runtime_error("no network namespace of one's own: " + hosts_[host]->err());
}

std::string TwoHosts::pid(int host) const { return std::to_string(hosts_[host]->pid()); }

Command TwoHosts::on(int host, const Command& command) const {
  Command enter = {"nsenter", "--target", pid(host), "--net", "--mount"};
  if (!is_root()) enter = joined(enter, {"--user", "--preserve-credentials"});
  return joined(enter, command);
}

void TwoHosts::connect() const {
  run(on(0, {"ip", "link", "add", "cable0", "type", "veth", "peer", "cable1", "netns", pid(1)}));
  for (const int host : {0, 1}) {
    const std::string number = std::to_string(host), cable = "cable" + number;
    const std::string address = "10.77.0." + std::to_string(host + 1) + "/24";
    run(on(host, {"ip", "address", "add", address, "dev", cable}));
    run(on(host, {"ip", "link", "set", "lo", "up"}));
    run(on(host, {"ip", "link", "set", cable, "up"}));
  }
}

void TwoHosts::cut() const { run(on(1, {"ip", "link", "set", "cable1", "down"})); }

}  // namespace tessera::testing
