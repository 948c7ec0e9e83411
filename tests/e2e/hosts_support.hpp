#pragma once
#include <memory>
#include <string>
#include <vector>

#include "program_support.hpp"

namespace tessera::testing {

/// Two hosts, played by this one: network namespaces with a cable between them. They belong to two
/// processes that die with this object and with the test, so nothing can stay behind.
class TwoHosts {
 public:
  /// None where the system does not allow it; then `why` says which command failed.
  static std::unique_ptr<TwoHosts> make(const TestFolder& folder, std::string& why);

  /// The command that runs this one on a host. Working folders are lost on the way.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  /// The name by which both hosts call host 0; host 0 takes it for a loopback address, as Debian's
  /// installer has it.
  static constexpr const char* kName = "tessera-first";
  /// Takes the cable out.
  void cut() const;

 private:
  TwoHosts() = default;
  void start(const TestFolder& folder, int host);
  void connect() const;
  std::string pid(int host) const;
  std::unique_ptr<Process> hosts_[2];
};

}  // namespace tessera::testing
