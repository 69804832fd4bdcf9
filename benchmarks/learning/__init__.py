"""Does every algorithm learn on every environment that it is meant for, with the settings that the suite ships?"""
