#include "kernel/cli/parse.hpp"

int main(int argc, char** argv) {
  using namespace tessera;
  return run_program(argc,
                     argv,
                     {
                         .train = run_train,
                         .plan = run_plan,
                         .calibrate = run_calibrate,
                         .generate = run_generate,
                         .checkpoint = run_checkpoint,
                         .ranks = run_ranks,
                         .schedule = run_schedule,
                         .plugins_list = run_plugins_list,
                         .plugins_show = run_plugins_show,
                         .plugins_check = run_plugins_check,
                         .plugins_check_child = run_plugins_check_child,
                         .config_check = run_config_check,
                         .config_dump = run_config_dump,
                         .config_diff = run_config_diff,
                         .config_keys = run_config_keys,
                     });
}
