// device.type = "auto": what it is where hardware is here, and where none is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/config/dump.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace auto_device_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kLeast;
const std::string kBase(kLeast);

struct Gpu {
  std::string products = "exact";
  static void describe(Schema<Gpu>& s) { s.field("products", &Gpu::products, "how"); }
};

/// As many units as `here` says.
class Machine : public testing::SampleCatalog {
 public:
  explicit Machine(DeviceUnits units) {
    add<Gpu>("device", "gpu", [] { return DeviceUnits{}; });
    here = std::move(units);
  }
  DeviceUnits units(const ComponentInfo& device) const override {
    EXPECT_EQ(device.type, "gpu");
    ++asked;
    return here;
  }
  DeviceUnits here;
  mutable int asked = 0;
};
const Machine& with_gpus() {
  static const Machine machine({2, "2 GPUs are visible"});
  return machine;
}
const Machine& without() {
  static const Machine machine({0, "there is no driver"});
  return machine;
}

Resolved resolved(const Catalog& catalog, const std::string& device) {
  return resolve(Config::parse(kBase + "[device]\n" + device, "a.toml", {}), catalog);
}

std::string error_of(const Catalog& catalog, const std::string& device) {
  return testing::error_of([&] { resolved(catalog, device); });
}

TEST(AutoDevice, IsTheOneWithUnits) {
  const Resolved r = resolved(with_gpus(), "type = \"auto\"\nshare = 2\nproducts = \"fast\"\n");
  EXPECT_EQ(r.run.device.device.type, "gpu");
  EXPECT_EQ(r.run.device.share, 2);
  EXPECT_EQ(r.tree->find("device.products")->value, Value("fast"));
  EXPECT_THAT(r.notices,
              ElementsAre("a.toml:13:8: [device] type = \"auto\" is \"gpu\" here: 2 GPUs are "
                          "visible"));
  const std::string text = dump(r);
  EXPECT_THAT(text, HasSubstr("# a.toml:13:8, \"auto\": 2 GPUs are visible\n"));
  EXPECT_EQ(values_text(resolve(Config::parse(text), without())), values_text(r));
}

TEST(AutoDevice, IsTheDefaultWithoutUnits) {
  const Resolved r = resolved(without(), "type = \"auto\"\nshare = 2\nproducts = \"fast\"\n");
  EXPECT_EQ(r.run.device.device.type, "cpu");
  EXPECT_EQ(r.run.device.share, 1);
  EXPECT_THAT(
      r.notices,
      ElementsAre("a.toml:13:8: [device] type = \"auto\" is \"cpu\" here: gpu: there is no driver",
                  "a.toml:13:8: [device] is \"cpu\" here: \"products\" (a.toml:15:1) is dropped, "
                  "another knows it",
                  "a.toml:14:1: [device] share is without effect on \"cpu\""));
  EXPECT_EQ(values_text(resolve(Config::parse(dump(r)), without())), values_text(r));
  EXPECT_THAT(resolved(testing::SampleCatalog(), "type = \"auto\"\n").notices,
              ElementsAre("a.toml:13:8: [device] type = \"auto\" is \"cpu\" here: no plugin is "
                          "loaded that is for other hardware"));
}

TEST(AutoDevice, StagesNothingWithoutUnits) {
  const std::string staged = "type = \"auto\"\n[comm]\nstaged = true\n";
  const Resolved r = resolved(without(), staged);
  EXPECT_FALSE(r.run.comm.staged);
  EXPECT_THAT(r.notices,
              ElementsAre(HasSubstr("\"auto\" is \"cpu\" here"),
                          "a.toml:15:1: [comm] staged is without effect on \"cpu\""));
  EXPECT_EQ(values_text(resolve(Config::parse(dump(r)), without())), values_text(r));
  EXPECT_TRUE(resolved(with_gpus(), staged).run.comm.staged);
  EXPECT_TRUE(resolved(without(), "type = \"cpu\"\n[comm]\nstaged = true\n").run.comm.staged);
}

TEST(AutoDevice, RefusesWhatHasNoEffectAnywhere) {
  EXPECT_THAT(error_of(without(), "type = \"auto\"\nproduct = \"fast\"\n"),
              HasSubstr("a.toml:14:1: [device] unknown key \"product\""));
  EXPECT_THAT(error_of(without(), "share = 2\n"),
              HasSubstr("a.toml:13:9: [device] share has no effect: any number of ranks compute on "
                        "\"cpu\", of which none needs a unit; remove it"));
  EXPECT_EQ(resolved(without(), "share = 1\n").run.device.share, 1);
  EXPECT_EQ(resolved(without(), "type = \"gpu\"\nshare = 3\n").run.device.share, 3);
}

TEST(AutoDevice, NothingIsAskedWhereTheDeviceIsNamed) {
  const Machine machine({1, "1 GPU is visible"});
  EXPECT_EQ(resolved(machine, "type = \"cpu\"\n").run.device.device.type, "cpu");
  EXPECT_EQ(resolve(Config::parse(kBase), machine).run.device.device.type, "cpu");
  EXPECT_EQ(resolved(machine, "type = \"gpu\"\n").run.device.device.type, "gpu");
  EXPECT_EQ(machine.asked, 0);
  EXPECT_THAT(testing::error_of(
                  [&] { resolve(Config::parse(kBase, "a.toml", {"model.type=auto"}), machine); }),
              HasSubstr("[model] type = \"auto\": no model plugin of that name"));
}

}  // namespace auto_device_test
}  // namespace tessera
