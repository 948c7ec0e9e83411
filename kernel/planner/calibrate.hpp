#pragma once
#include <string>
#include <vector>

#include "kernel/config/hardware.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

struct CalibrateArguments {
  const PluginHost* plugins = nullptr;
  std::string device = "cpu";
  std::string within, between;  ///< communicators: of ranks of one host, of hosts
  int ranks = 1;                ///< that compute at once on this host
  int threads = 1;              ///< of each
  int ranks_per_host = 0;       ///< that the table says; 0: `ranks`
  std::string name;             ///< of the table, for people
};

/// What this host does, measured by as many ranks as will share it, all at once.
struct Calibration {
  struct Product {  ///< out [m, n] = a [m, k] · b [n, k]ᵀ
    DType dtype = DType::fp32;
    i64 m = 0, n = 0, k = 0;
    double flops_per_second = 0;  ///< of the slowest rank
  };
  struct Moved {
    std::string operation;
    double bytes_per_second = 0;
  };
  struct Graph {  ///< of operations on few elements
    int launches = 0;
    double eager = 0, replayed = 0;  ///< seconds: one by one; in a graph
  };
  struct Collective {
    std::string communicator;
    CollectiveKind kind = CollectiveKind::all_reduce;
    i64 bytes = 0;  ///< that a rank starts or ends with, the larger
    double seconds = 0;
  };
  Hardware hardware;
  std::string device;  ///< name, and what it computes with
  int ranks = 1, threads = 1;
  /// Largest ratio of the slowest to the fastest batch of a measurement. Far above 1, the host was
  /// busy and the numbers are not its own.
  double unevenness = 1;
  std::vector<Product> products;
  std::vector<Moved> moved;
  Graph graph;
  std::vector<Collective> collectives;  ///< by communicator, kind, size
};

/// Whether the device computes in the host's memory; it is not made.
bool has_host_memory(const CalibrateArguments& arguments);

/// Takes some ten seconds. Ranks are threads; several need a device with the host's memory. What is
/// not measured (links, for one rank) is that of the default table. Throws Error where the device
/// or a communicator fails.
Calibration calibrate(const CalibrateArguments& arguments);

/// Sets the table's numbers from the measurements. Links are those of these communicators.
void fill_hardware(Calibration& measured, const std::string& within, const std::string& between);

/// The table as a file of configs/hardware, the measurements as comments.
std::string hardware_toml(const Calibration& calibration);

}  // namespace tessera
