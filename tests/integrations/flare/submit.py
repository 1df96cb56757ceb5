"""Submit a job to a running FLARE server by an administrator's startup kit, and wait for it."""

import sys

from nvflare.recipe.prod_env import ProdEnv

from securefedyj.integrations.flare.recipe import SecureFedYJRecipe

if __name__ == "__main__":
    kit, consortium = sys.argv[1:]
    recipe = SecureFedYJRecipe(name="fit", consortium=consortium)
    run = recipe.execute(ProdEnv(startup_kit_location=kit, login_timeout=60.0))
    result = run.get_result()
    print(f"status: {run.get_status()}")
    print(f"result: {result}")
