#pragma once
#include <span>
#include <string>

#include "tessera/schema.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Matrix products: operations a second of one rank, by element type; 0: it has no such units.
struct PeakTable {
  double fp64 = 110e9, fp32 = 220e9, fp16 = 220e9, bf16 = 220e9;
  double tf32 = 0;  ///< of fp32 tensors whose factors are rounded (Kernel::tf32)
  double efficiency = 0.9;
  static void describe(Schema<PeakTable>& s);
};

struct MemoryTable {
  double bandwidth = 22e9;  ///< bytes a second of one rank
  double efficiency = 0.9;
  double capacity = 0;  ///< bytes of one rank's device, or of a host where `shared`; 0: unknown
  bool shared = true;   ///< ranks compute in their host's memory
  static void describe(Schema<MemoryTable>& s);
};

/// A way between ranks: bytes a second in one direction, seconds for the first byte.
struct LinkTable {
  double bandwidth = 20e9, efficiency = 1, latency = 1e-6;
  static void describe(Schema<LinkTable>& s);
};

/// What predicted times are computed from: configs/hardware/*.toml. The defaults are those of
/// configs/hardware/cpu-host.toml.
struct Hardware {
  std::string name = "a small CPU host";
  i64 ranks_per_host = 16;
  double launch_latency = 5e-7;  ///< of each operation
  double graph_latency = 1e-6;   ///< of each replay of a graph, for all its operations
  /// Element type whose speed and size fp32 tensors are timed with: for a study of runs that had
  /// another precision than the configuration. Empty: fp32.
  std::string fp32_timed_as;
  PeakTable peak;
  MemoryTable memory;
  LinkTable inside;                    ///< of one rank, within its host
  LinkTable between{1.2e9, 1, 50e-6};  ///< of one host, shared by its ranks
  std::string table = "built in";      ///< the file that it was read from, for people
  static void describe(Schema<Hardware>& s);

  /// Reads a table. A peak that the file does not write is 0, whatever a small host's is. Throws
  /// ConfigError with file, line and key for what is wrong with it.
  static Hardware load(const std::string& file);

  /// Operations a second of one rank at its peak, of products of tensors of this type. `tf32`: as
  /// Kernel::tf32 says. Throws ConfigError that names the file and its key where it has none.
  double peak_rate(DType dtype, bool tf32 = false) const;
  /// What products reach of the peak.
  double rate(DType dtype, bool tf32 = false) const {
    return peak_rate(dtype, tf32) * peak.efficiency;
  }
  /// Bytes that a tensor of `bytes` counts in predicted times (fp32_timed_as).
  double timed_bytes(DType dtype, i64 bytes) const;

  i64 host(i64 rank) const { return rank / ranks_per_host; }
  bool within_host(std::span<const i64> members) const;
  /// Bytes a second that a ring through the members moves past the slowest rank, when all groups of
  /// this kind communicate at once and share what joins the hosts.
  LinkTable ring(std::span<const i64> members) const;

 private:
  DType timed(DType dtype) const;
};

}  // namespace tessera
